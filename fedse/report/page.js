"use strict";
(() => {
  const { theme, figures } = JSON.parse(document.getElementById("figures").textContent);
  const views = new Map();

  const rowsOf = ({ columns, rows }, { by, values }) => {
    const at = columns.indexOf(by);
    const picked = values.length ? rows.filter((row) => values.includes(row[at])) : rows;
    return picked.map((row) => Object.fromEntries(columns.map((key, i) => [key, row[i]])));
  };

  const draw = async (plot) => {
    const figure = figures[plot.dataset.figure];
    const panel = figure.panels[Number(plot.dataset.panel)];
    const spec = {
      ...panel.spec,
      data: { values: rowsOf(figure, panel) },
      width: Math.max(plot.clientWidth, 160),
    };
    try {
      const compiled = vegaLite.compile(spec, { config: theme }).spec;
      const view = new vega.View(vega.parse(compiled, undefined, { ast: true }), {
        expr: vegaInterpreter.expressionInterpreter,
        renderer: "svg",
        container: plot,
        hover: true,
      });
      await view.runAsync();
      views.set(plot, view);
      // The element around the plot is the image and carries its description.
      for (const name of ["role", "aria-roledescription", "aria-label"]) plot.removeAttribute(name);
      plot.dataset.drawn = "yes";
    } catch (error) {
      console.error(plot.dataset.figure, error);
      plot.removeAttribute("aria-hidden");
      plot.textContent = "This figure could not be drawn. Its numbers are in the table.";
    }
  };

  // What lies in a closed part is drawn when the part is opened: most readers open few of them.
  const visible = (plot) => !plot.closest("details:not([open])");
  const drawn = (plot) => plot.dataset.drawn !== undefined;
  const drawAll = async () => {
    for (const plot of document.querySelectorAll(".plot")) {
      if (visible(plot) && !drawn(plot)) {
        plot.dataset.drawn = "under way";
        await draw(plot);
      }
    }
    document.documentElement.dataset.ready = "yes";
  };
  document.addEventListener("toggle", (event) => event.target.open && drawAll(), true);

  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const view = views.get(target);
      const width = Math.max(target.clientWidth, 160);
      if (view && visible(target) && Math.abs(view.width() - width) > 1) view.width(width).runAsync();
    }
  });
  for (const plot of document.querySelectorAll(".plot")) resized.observe(plot);
  // Every table of numbers can be saved; quotes keep a name that looks like a formula a name.
  const csv = ({ columns, rows }) => {
    const cell = (v) => (v === null ? "" : typeof v === "number" ? v : `"${v.replaceAll('"', '""')}"`);
    return [columns, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
  };
  const save = (id) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(figures[id])], { type: "text/csv" }));
    link.download = `${id}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  for (const button of document.querySelectorAll("button[data-save]")) {
    button.hidden = false;
    button.addEventListener("click", () => save(button.dataset.save));
  }

  // What lies beyond the right edge of a table is told of until one has scrolled there.
  const tables = document.querySelectorAll("div.scroll");
  const look = (box) => {
    const more = box.scrollWidth - box.clientWidth - box.scrollLeft > 1;
    box.classList.toggle("more", more);
    box.nextElementSibling.hidden = !more;
  };
  const sized = new ResizeObserver((entries) => entries.forEach(({ target }) => look(target)));
  for (const box of tables) {
    box.addEventListener("scroll", () => look(box), { passive: true });
    sized.observe(box);
  }

  // A link to a closed part opens it.
  const reveal = () => {
    const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const closed = part && part.closest("details:not([open])");
    if (closed) closed.open = true;
  };
  window.addEventListener("hashchange", reveal);
  reveal();
  drawAll();
})();
