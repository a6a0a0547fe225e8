"""The client of an API server: what it reads, and through which proxy it calls."""

from __future__ import annotations

import pytest

from muster_cluster_agent.adapters.kubernetes.client import _proxy_of, decoded


@pytest.mark.parametrize("text", [b"", b"{", b"not json", b'{"a": }', b"\xff"])
def test_what_is_no_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        decoded(text)


def test_json_is_read_as_it_is() -> None:
    assert decoded('{"a": [1, "ü", null]}'.encode()) == {"a": [1, "ü", None]}


@pytest.mark.parametrize(
    ("address", "proxy"),
    [
        ("https://api.example:6443", "http://proxy.example:3128"),
        ("http://api.example", None),
        ("https://inside.example", None),
        ("https://10.0.0.1", "http://proxy.example:3128"),
    ],
)
def test_the_environment_names_the_proxy(monkeypatch: pytest.MonkeyPatch, address: str, proxy: str | None) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert _proxy_of(address) == proxy
