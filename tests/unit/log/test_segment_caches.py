from __future__ import annotations

from penstock.log.segment_caches import LruCache


def test_what_was_used_longest_ago_goes_first() -> None:
    cache: LruCache[int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_the_bound_is_on_weight_and_the_newest_always_stays() -> None:
    cache: LruCache[str] = LruCache(100)
    cache.put("a", "x", 60)
    cache.put("b", "y", 60)
    assert (len(cache), cache.weight) == (1, 60)
    cache.put("huge", "z", 1_000)
    assert cache.get("huge") == "z"
    assert (len(cache), cache.weight) == (1, 1_000)
    cache.put("huge", "z", 10)
    cache.remove("huge")
    cache.remove("never there")
    assert (len(cache), cache.weight) == (0, 0)
