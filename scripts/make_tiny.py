"""Make the tiny base models that ship with the package, from random and noisy play only.

    python scripts/make_tiny.py fedse/tiny --steps 1500
    python scripts/make_tiny.py fedse/tiny_five --worlds five --steps 3000

The same seed on the same machine gives the same folder. The model sees no held-out layout, and an
expert's move only as often as SKILL says, so it knows the formats and how the worlds
answer, but plays little better than chance.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from fedse.agent.prompt import Encoder
from fedse.envs.base import ExpertEnv, make_env
from fedse.method.rollout import Game, scripted_episode
from fedse.seeds import seed_of
from fedse.train.batch import make_batch
from fedse.types import Trajectory

TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'assistant' %}{{ message.content + '<|end|>' }}"
    "{% else %}{{ '<|' + message.role + '|>' + message.content }}"
    "{% if message.role == 'user' %}{{ '<|assistant|>' }}{% endif %}{% endif %}"
    "{% endfor %}"
)
SPECIAL = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
SHAPE = {
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}
CONTEXT = 1024
VOCABULARY = {"two": 448, "five": 900}
# Layout seeds 1000.. occur nowhere else, so neither the demo's training mazes nor its held-out
# ones were seen here.
MAZES = "random-9x9-1000..1399"
# Chance that a player of the corpus takes the expert's move, drawn anew for each player.
SKILL = (0.0, 0.3)
# How much of the corpus is played in each world.
SHARE = {
    "two": {"maze": 0.6, "wordle": 0.4},
    "five": {"babyai": 0.2, "maze": 0.22, "textcraft": 0.22, "webshop": 0.2, "wordle": 0.16},
}


def make_worlds(name: str) -> list[ExpertEnv]:
    """The settings of one environment that the corpus is played in."""
    short = {"prompt": "short"}
    settings: dict[str, list[dict[str, object]]] = {
        "babyai": [
            {"levels": "easy", "seeds_per_level": (200, 50), "max_turns": 10},
            {"seeds_per_level": (80, 20), "max_turns": 10},
        ],
        "maze": [{"layouts": [MAZES], "held_out": ["random-9x9-1400..1401"]}],
        "textcraft": [
            {"depths": [1, 2], "distractors": 0, "max_turns": 10},
            {"depths": [1, 2], "distractors": 3, "max_turns": 10},
        ],
        "webshop": [{"option_axes": 0}, {"option_axes": 1}],
        "wordle": [{"words": "small"}, {"words": "medium"}],
    }
    made = [make_env(name, short | options) for options in settings[name]]
    return [env for env in made if isinstance(env, ExpertEnv)]


def noisy_play(
    count: int, shares: dict[str, float], *, seed: int
) -> Iterator[tuple[str, Trajectory]]:
    """Episodes of players that mostly follow a random habit, with the prompt each one saw.

    A habit prefers some actions over others whatever the state, so the likeliest continuation of
    an episode is its player's habit and not the expert's move.
    """
    random, envs = Random(seed), {name: make_worlds(name) for name in shares}
    for _ in range(count):
        name = random.choices(list(shares), list(shares.values()))[0]
        env = random.choice(envs[name])
        game = Game(random.choice(env.tasks("train")), random.randrange(2**31))
        yield env.system_prompt, scripted_episode(game, env, habit(random), name="noisy")


def habit(random: Random) -> Callable[[ExpertEnv], str]:
    """A player: seldom the expert, else by its own fixed preferences."""
    skill = random.uniform(*SKILL)
    liking: dict[str, float] = {}

    def choose(world: ExpertEnv) -> str:
        if random.random() < skill:
            return world.expert()
        actions = world.actions()
        weights = [liking.setdefault(action, random.expovariate(1.0)) for action in actions]
        return random.choices(actions, weights)[0]

    return choose


def make_tokenizer(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE, so that any text of any environment can be written."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<|pad|>", eos_token="<|end|>", padding_side="left"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def pretrain(
    model: LlamaForCausalLM,
    pools: Sequence[Sequence[Trajectory]],
    *,
    steps: int,
    batch: int,
    seed: int,
) -> None:
    """The model has learned to continue the corpus, observations and actions alike.

    A batch is drawn from one pool, so that episodes of very different lengths do not share one.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    random = Random(seed)
    model.train()
    for step in range(steps):
        pool = pools[0] if len(pools) == 1 else random.choices(pools, [len(p) for p in pools])[0]
        rows = make_batch(random.sample(pool, batch), context=CONTEXT)
        labels = rows.ids_B_T.masked_fill(rows.attention_B_T == 0, -100)
        loss = model(input_ids=rows.ids_B_T, attention_mask=rows.attention_B_T, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--worlds", choices=list(SHARE), default="two")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=12000)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    shares = SHARE[args.worlds]
    corpus = list(noisy_play(args.episodes, shares, seed=seed_of(args.seed, "corpus")))
    texts = [" ".join([s, *(f"{t.observation} {t.action}" for t in e.turns)]) for s, e in corpus]
    tokenizer = make_tokenizer(texts[:4000], VOCABULARY[args.worlds])
    encoder = Encoder(tokenizer)
    episodes = [encoder.tokenized(system, episode) for system, episode in corpus]
    lengths = sorted(len(episode.token_ids) for episode in episodes)
    print(f"tokens {sum(lengths)}, per episode {lengths[len(lengths) // 2]}, most {lengths[-1]}")

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        **SHAPE,
    )
    model = LlamaForCausalLM(config)
    print(f"parameters {sum(p.numel() for p in model.parameters())}")
    pools = [episodes]
    if args.worlds == "five":
        pools = [[e for e in episodes if e.task.env == name] for name in shares]
    pretrain(model, pools, steps=args.steps, batch=args.batch, seed=seed_of(args.seed, "order"))
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    made = {
        "worlds": args.worlds,
        "seed": args.seed,
        "episodes": args.episodes,
        "steps": args.steps,
    }
    (args.out / "made.json").write_text(json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
