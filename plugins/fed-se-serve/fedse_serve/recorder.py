"""One thread that records turns and feedback in groups, so that the disk is asked rarely.

Everything goes through one queue, so feedback that comes after a turn finds it. Feedback is
acknowledged when it is on disk. If recording fails, turns are counted as lost and serving goes on.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fedse.agent.prompt import Encoder
from fedse.errors import FedSEError
from fedse.types import Clock
from fedse_serve.asked import Refused
from fedse_serve.feedback import parse_feedback
from fedse_serve.forgetting import withdraw
from fedse_serve.gateway import Taken
from fedse_serve.records import Records
from fedse_serve.rows import FeedbackRow, NewSession, TurnRecord
from fedse_serve.settings import Metric
from fedse_serve.texts import Texts, guards_of, reply_of, texts_of
from fedse_serve.told import Told

GROUP, WAITING = 256, 20_000
"""Turns in one transaction, and turns that may wait for one, at most."""


class _Turn(NamedTuple):
    taken: Taken
    done: "asyncio.Future[None]"


class _Feedback(NamedTuple):
    row: FeedbackRow
    answer: "asyncio.Future[str | None]"


class RecordingThread:
    """Records until it is closed."""

    def __init__(
        self,
        records: Records,
        metrics: Mapping[str, Metric],
        *,
        template: str,
        encoder: Encoder | None,
        clock: Clock,
        tell: Callable[[str], None],
    ) -> None:
        self._records, self._metrics, self._template = records, metrics, template
        self._encoder, self._clock, self._tell = encoder, clock, tell
        self._queue: queue.Queue[_Turn | _Feedback | None] = queue.Queue(WAITING)
        self._well, self.lost = True, 0
        self._thread = threading.Thread(target=self._work, name="recording", daemon=True)
        self._thread.start()

    def recording(self) -> bool:
        return self._well

    def turn(self, taken: Taken) -> "asyncio.Future[None] | None":
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait(_Turn(taken, done))
        except queue.Full:
            self._failed(1, f"{WAITING} turns wait to be recorded")
            return None
        return done

    async def feedback(self, raw: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        row, dry = parse_feedback(raw, headers, self._metrics, now=self._clock())
        if dry:
            return {"feedback_id": None}
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait(_Feedback(row, answer))
        except queue.Full:
            raise _not_recorded() from None
        made = await answer
        if made is None:
            missing = row.session or row.inference
            raise Refused(404, "no_such_session", f"there is no session or turn {missing!r:.80}")
        return {"feedback_id": made}

    def close(self) -> None:
        """Everything that was taken is recorded."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            group = [self._queue.get()]
            while len(group) < GROUP and group[-1] is not None:
                try:
                    group.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            self._record([one for one in group if isinstance(one, _Turn)])
            self._note([one for one in group if isinstance(one, _Feedback)])
            if group[-1] is None:
                self._records.close()
                return

    def _record(self, group: Sequence[_Turn]) -> None:
        taken = [one.taken for one in group]
        try:
            if taken:
                self._record_all(taken)
                self._well = True
        except (FedSEError, OSError, ValueError) as error:
            self._failed(len(taken), str(error))
        _settle([(one.done, None) for one in group])

    def _record_all(self, taken: Sequence[Taken]) -> None:
        pins = self._records.begin_all([new_session(one) for one in taken])
        self._records.add_turns([self._turn(one) for one in taken])
        for one, pin in zip(taken, pins, strict=True):
            if pin.learn and not one.asked.learn:
                withdraw(self._records, pin.session)

    def _turn(self, taken: Taken) -> TurnRecord:
        return turn_record(taken, self._template, self._encoder)

    def _note(self, given: Sequence[_Feedback]) -> None:
        if not given:
            return
        try:
            made: Sequence[str | None] = self._records.add_feedback([one.row for one in given])
        except (FedSEError, OSError) as error:
            self._failed(0, str(error))
            _settle([(one.answer, _not_recorded()) for one in given])
            return
        _settle([(one.answer, id) for one, id in zip(given, made, strict=True)])

    def _failed(self, turns: int, reason: str) -> None:
        if self._well:
            self._tell(f"turns are not recorded: {reason}")
        self._well, self.lost = False, self.lost + turns


def new_session(taken: Taken) -> NewSession:
    """The session of a turn, as it is put on record with its first one."""
    served, asked = taken.served, taken.asked
    return NewSession(
        session=served.session,
        person=asked.person,
        application=taken.application,
        arm=served.arm,
        adapter=served.adapter,
        learn=asked.learn,
        share=served.share,
    )


def turn_record(taken: Taken, template: str, encoder: Encoder | None) -> TurnRecord:
    """What is kept of a turn; of one without its exact tokens, no more than that it was."""
    told, texts = taken.told, texts_of(taken.asked)
    if not told.exact:
        told, texts = Told(taken.asked, adapter=taken.served.adapter), Texts((), (), "")
    return TurnRecord(
        inference=taken.id,
        session=taken.served.session,
        at=taken.at,
        arm=taken.served.arm,
        # A role is acted by a part of the adapter, which the engine knows by another name.
        adapter=taken.served.adapter if taken.asked.role else told.adapter,
        template=template,
        sampling=taken.asked.sampling,
        prompt_ids=told.prompt_ids,
        sampled_ids=told.action_ids,
        log_probs=told.log_chances,
        observation=texts.new,
        reply=encoder.text(told.action_ids) if encoder else reply_of(told),
        finish=told.finish,
        guards=guards_of(told, seconds=taken.seconds, broke=taken.broke),
        earlier_shown=texts.shown,
        earlier_said=texts.said,
    )


def _settle(results: "Sequence[tuple[asyncio.Future[Any], str | Refused | None]]") -> None:
    """Who waits for these gets them; the loop is woken once, as that is the costly part."""

    def settle() -> None:
        for future, result in results:
            if future.done():
                continue
            if isinstance(result, Refused):
                future.set_exception(result)
            else:
                future.set_result(result)

    if results:
        with suppress(RuntimeError):  # the loop has ended, so nobody waits
            results[0][0].get_loop().call_soon_threadsafe(settle)


def _not_recorded() -> Refused:
    return Refused(
        503, "not_recorded", "the feedback could not be recorded; send it again", retry=5
    )
