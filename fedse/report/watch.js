"use strict";
(() => {
  const PERIOD = 3000;
  const MOST_SITES = 100;
  const MOST_NAMED = 10;
  const NONE = "\u2013";
  const byId = (id) => document.getElementById(id);
  const two = (number) => String(number).padStart(2, "0");
  const WORDS = {
    working: (now) => `working on round ${now.round}`,
    sent: (now) => `sent round ${now.round}`,
    idle: () => "connected, not asked yet",
    silent: () => "silent",
    left: () => "left",
    away: () => "not connected",
  };

  function time(seconds) {
    if (seconds === null || seconds === undefined) return NONE;
    const at = new Date(seconds * 1000);
    const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
    const day = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map(two).join("-");
    return at.toDateString() === new Date().toDateString() ? clock : `${day} ${clock}`;
  }

  /* A text that did not change is left alone, so that nothing is read aloud twice. */
  function write(id, text) {
    if (byId(id).textContent !== text) byId(id).textContent = text;
  }

  function warn(id, text) {
    byId(id).hidden = !text;
    const line = byId(id).firstElementChild;
    if (line.textContent !== text) line.textContent = text;
  }

  function fill(id, rows) {
    const titles = [...byId(id).closest("table").querySelectorAll("th")];
    byId(id).replaceChildren(...rows.map((cells) => {
      const row = document.createElement("tr");
      row.append(...cells.map((text, place) => {
        const cell = document.createElement("td");
        cell.textContent = text;
        cell.className = titles[place].className;
        cell.dataset.title = titles[place].textContent;
        return cell;
      }));
      return row;
    }));
  }

  /* All sites if they are few; of many those that are not well, at most so many. */
  function worthALook(sites) {
    if (sites.length <= MOST_SITES) return sites;
    const well = (site) =>
      site.state === "enrolled" && (!site.now || site.now.connected !== null) && ["", "voted"].includes(site.last);
    return sites.filter((site) => !well(site)).slice(0, MOST_SITES);
  }

  function some(texts, between) {
    const more = texts.length - MOST_NAMED;
    return [...texts.slice(0, MOST_NAMED), ...(more > 0 ? [`and ${more} more`] : [])].join(between);
  }

  function siteRow(site, quarantined) {
    const now = site.now;
    const key = quarantined.includes(site.name) ? `${site.state}, quarantined` : site.state;
    const does = now ? WORDS[now.doing](now) : NONE;
    return [site.name, does, time(now?.since), time(now?.connected), key, site.last || NONE];
  }

  function roundRow(round) {
    const success = round.success;
    const excluded = Object.entries(round.excluded).map(([site, why]) => `${site}: ${why}`);
    const absent = round.absent.map((site) => `${site}: absent`);
    return [
      String(round.round), String(round.voted.length),
      success ? success.rate.toFixed(2) : NONE,
      success ? `${success.low.toFixed(2)} to ${success.high.toFixed(2)}` : NONE,
      success ? String(success.games) : NONE,
      round.seconds.toFixed(1),
      some([...excluded, ...absent], "; ") || "none",
    ];
  }

  function show(status) {
    const silent = status.sites.filter((site) => site.now?.doing === "silent");
    const newest = status.last_rounds.find((round) => round.success);
    document.title = `${status.federation} \u00b7 Fed-SE coordinator`;
    write("federation", `Federation ${status.federation}`);
    write("server", `Sites reach it at ${status.server}`);
    const endless = status.rounds === "open";
    write("round", endless ? String(status.round) : `${status.round} of ${status.rounds}`);
    write("waiting", status.waiting);
    write("connected", `${status.connected} of ${status.expected}`);
    const lost = silent.map((site) => `${site.name} since ${time(site.now.since)}`);
    write("silent", lost.length ? `silent: ${some(lost, ", ")}` : "nobody fell silent");
    const rate = newest?.success;
    write("success", rate ? rate.rate.toFixed(2) : NONE);
    write("interval", rate
      ? `${rate.low.toFixed(2)} to ${rate.high.toFixed(2)} (95 %), after round ${newest.round}`
      : "nothing is measured yet");
    const out = some(status.quarantined, ", ");
    warn("quarantined", out && `quarantined, asked nothing until pardoned: ${out}`);
    warn("warnings", status.warnings.join("; "));
    const shown = worthALook(status.sites);
    const more = status.sites.length - shown.length;
    const rest = [`and ${more} more`, "fedse federation status --json has all", NONE, NONE, NONE, NONE];
    const rows = shown.map((site) => siteRow(site, status.quarantined));
    fill("sites", more ? [...rows, rest] : rows);
    fill("rounds", status.last_rounds.map(roundRow));
    write("ledger", status.ledger || NONE);
    write("fingerprint", status.fingerprint);
    const ends = Object.entries(status.certificates);
    write("certificates", ends.map(([name, one]) => `${name}: ${Math.floor(one.days_left)} days`).join(", "));
  }

  async function look() {
    try {
      const answer = await fetch("/status", { cache: "no-store", credentials: "omit" });
      if (!answer.ok) throw new Error(`it answered ${answer.status}`);
      const status = await answer.json();
      show(status);
      write("fresh", `as of ${time(status.time)}`);
      warn("unanswered", "");
      document.documentElement.dataset.ready = "yes";
    } catch {
      warn("unanswered", "The coordinator does not answer: what is below is old. Did it end?");
    }
    setTimeout(look, PERIOD);
  }
  look();
})();
