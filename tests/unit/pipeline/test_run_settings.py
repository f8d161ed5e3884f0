"""The first signal asks, the second ctrl-C does not wait, and nobody's handlers are kept."""

from __future__ import annotations

import signal
import threading

import pytest

from penstock.pipeline.run_settings import stopping_on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_and_a_second_interrupt_breaks_off(number: signal.Signals) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    asked = threading.Event()
    with stopping_on_signals(asked.set):
        signal.raise_signal(number)
        assert asked.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert {each: signal.getsignal(each) for each in before} == before


def test_another_thread_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work() -> None:
        with stopping_on_signals(lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize(
    ("number", "raised", "code"), [(signal.SIGINT, KeyboardInterrupt, None), (signal.SIGTERM, SystemExit, 143)]
)
def test_a_run_that_was_to_finish_and_did_not_does_not_look_finished(
    number: signal.Signals, raised: type[BaseException], code: int | None
) -> None:
    with stopping_on_signals(lambda: None) as request:
        request.end_unfinished()  # nothing was asked
        signal.raise_signal(number)
    with pytest.raises(raised) as ended:
        request.end_unfinished()
    assert getattr(ended.value, "code", None) == code
