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
