"""Texts without secrets: what is found in them is a false alarm."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

from fedse.envs.base import make_env
from fedse.method.rollout import choose_games, demonstrate
from fedse.seeds import seed_of
from tests.redact.corpora.secret_corpus import HEX, letters

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENTS = ("babyai", "desk", "maze", "textcraft", "webshop", "wordle")
HARD = (
    "Please reset your password; the link in the mail expires in {n} hours.",
    "Password: at least {n} characters, one of them a digit.",
    "The password is required. The secret of a good sauce is patience.",
    "Enter your password or use a passkey to continue.",
    "A token is a piece of a word; this text has {n} tokens, {m} of them rare.",
    "token: the smallest unit of meaning. key: what opens a door.",
    "The red key opens the red door; the secret door is behind the shelf.",
    "Secret ingredient: cinnamon. Access key: see the receptionist.",
    "session: morning, room {n}; cookie: chocolate or oat",
    "Order {long} was shipped on 2026-0{d}-1{d} and arrives in {n} days.",
    "Invoice no. {n}-{long}, total {n}.{m} EUR, due 1{d}.0{d}.2026.",
    "Version 3.{d}.{n} replaces 2.{m}.{d}; build {n}.",
    "commit {sha} changes {n} files",
    "id: {uuid}, status: done",
    "/usr/share/doc/python3-packaging/examples/{n}/readme.txt",
    "Traceback: File 'fedse/store/buffer.py', line {n}, in record_played",
    "def authenticate_user_with_token(user_name, access_token_provider): return None",
    "ISBN 978-3-16-14{n}10-0, page {m}",
    "GET /products/catalogue/items?page={n}&sort=price_ascending 200 {m}ms",
    "model = TransformerEncoderLayerWithRotaryEmbeddings(hidden={n}, heads={d})",
    "The train leaves at 1{d}:0{d} from platform {d}; seat {n} in coach {d}.",
    "Pin the photo to the board. Code {d} means all is well.",
    "He said: the basic idea is simple, the bearer of this letter may enter.",
    "Authorization was given by the head of department on Monday.",
    "Recipe: 2{d}0 g flour, {n} ml milk, {d} eggs; bake for {m} minutes.",
    "Latitude 52.{n}, longitude 13.{m}, height {n} m.",
)


def environment_texts(name: str, games: int, seed: int) -> Iterator[str]:
    """All that the scripted expert sees and says in some games, and the system prompt."""
    tasks = make_env(name).tasks("train")
    played = demonstrate(choose_games(tasks, games, seed=seed), lambda: make_env(name))
    yield make_env(name).system_prompt
    for episode in played:
        for turn in episode.turns:
            yield from (turn.observation, turn.action)


def clean_texts(games: int, seed: int) -> dict[str, list[str]]:
    """By where they are from."""
    texts = {name: list(environment_texts(name, games, seed)) for name in ENVIRONMENTS}
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    paragraphs = [p for page in pages for p in page.read_text(encoding="utf-8").split("\n\n")]
    return {**texts, "our documentation": paragraphs, "hard prose": list(hard_prose(seed))}


def hard_prose(seed: int, times: int = 20) -> Iterator[str]:
    """Sentences that speak of secrets and hold none, and numbers that are not private."""
    random = Random(seed_of("hard prose", seed))
    for _ in range(times):
        for line in HARD:
            made = letters(HEX, 32)(random)
            yield line.format(
                n=random.randrange(10, 999),
                m=random.randrange(10, 99),
                d=random.randrange(1, 10),
                long=random.randrange(10**8, 10**9),
                sha=letters(HEX, 40)(random),
                uuid="-".join([made[:8], made[8:12], made[12:16], made[16:20], made[20:]]),
            )
