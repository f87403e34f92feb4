"""Who is calling and what is asked: the fingerprints by which a call is found again.

A request's identity is the digest of its stable members, a parent's that of what the provider can see of it. Both are
taken once, from a snapshot: what the caller changes afterwards does not count.
Source: cassette format, Identity.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from cassette_lab.cassette.model import RequestMetadata
from cassette_lab.cassette.schema import kind_of
from cassette_lab.contracts import ABSENT, ParentAgent
from cassette_lab.errors import IdentityError
from cassette_lab.jsonio import CanonicalError, JsonObject, canonical, detach, digest, parse
from cassette_lab.jsonio.surrogates import join_pairs
from cassette_lab.surface import fold_surface, inherited_prefix

REQUEST_MEMBERS: Final = ("agentOptions", "label", "maxDepth", "outputSchema", "persona", "prompt", "toolFilter")
"""The members that count in a request's identity, in canonical order."""

_LABEL: Final = 4  # place of the label among the facts
_SLUG_LENGTH: Final = 32
_SHORT_LABEL: Final = 120
_SESSION_MEMBERS: Final = ("cwd", "origin", "delegationDepth", "agentPreset")
_OUTSIDE_SLUG: Final = re.compile("[^a-z0-9]+")
_MEMBER_PREFIX: Final = tuple((name, f'"{name}":'.encode()) for name in REQUEST_MEMBERS)


class RequestIdentity:
    """A snapshot of one request: its canonical text, digest, and what may be said of it without its contents.

    ``canonical`` is the canonical JSON of the normalised request, ``fingerprint`` its digest. ``label`` is as the
    request gives it (``ABSENT`` without one). ``facts`` are the values of its ``RequestMetadata``, in field order.
    """

    __slots__ = ("_depth_is_null", "canonical", "facts", "fingerprint", "label")

    def __init__(self, members: Mapping[str, Any]) -> None:
        """Snapshot ``members``; ``IdentityError`` where they are not lossless plain JSON or a filter is not closed."""
        if not isinstance(members, Mapping):
            raise IdentityError(f"a request must be an object, not {kind_of(members)}")
        parts = []
        prompt_bytes = 0
        for name, prefix in _MEMBER_PREFIX:
            if name in members:
                text = _canonical(members[name], name)
                parts.append(prefix + text)
                if name == "prompt":
                    prompt_bytes = len(text)
        self.canonical: bytes = b"{" + b",".join(parts) + b"}"
        self.facts: tuple[Any, ...] = _facts(members, prompt_bytes)
        self.fingerprint: str = "sha256:" + hashlib.sha256(self.canonical).hexdigest()
        self.label: Any = self.facts[_LABEL] if "label" in members else ABSENT
        self._depth_is_null = members.get("maxDepth", ABSENT) is None

    @property
    def value(self) -> JsonObject:
        """The normalised request: a new plain copy at each call."""
        members: JsonObject = parse(self.canonical)
        return members

    @property
    def metadata(self) -> RequestMetadata:
        """What a cassette keeps of the request when it stores metadata only."""
        return RequestMetadata(*self.facts)

    def metadata_json(self) -> JsonObject:
        """The metadata as a diagnosis prints it: also members that are null, which ``metadata`` cannot tell from absent."""
        members = self.metadata.to_json()
        if self.label is None:
            members["label"] = None
        if self._depth_is_null:
            members["maxDepth"] = None
        return members


def normalize_request(members: Mapping[str, Any]) -> JsonObject:
    """The members of a request that count in its identity, as detached plain JSON.

    Unknown members are left out. Raises ``IdentityError``, with the dotted path of the member, for anything that is not
    lossless plain JSON, for a tool filter outside its closed shape and for a prompt that is no array.
    """
    return RequestIdentity(members).value


def request_fingerprint(members: Mapping[str, Any]) -> str:
    """Digest of the (normalised) request; before any redaction."""
    return RequestIdentity(members).fingerprint


def request_metadata(members: Mapping[str, Any]) -> RequestMetadata:
    """Metadata of the (normalised) request, or of the request as a cassette stores it in full."""
    return RequestMetadata(*metadata_facts(members))


def metadata_facts(members: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of ``request_metadata(members)`` in field order, for who compares many."""
    return _facts(members, len(_canonical(members.get("prompt"), "prompt")))


def normalize_parent_context(parent: ParentAgent, inherits_parent_context: bool) -> JsonObject:  # noqa: FBT001
    """What a provider can see of ``parent``, as detached plain JSON; the history only for a provider that inherits it.

    Raises ``IdentityError`` for what is not lossless plain JSON or of the wrong type, ``SurfaceError`` for a history
    that does not fold.
    """
    events: Any = parent.events if inherits_parent_context else None
    if events is not None and (not isinstance(events, Sequence) or isinstance(events, (str, bytes))):
        raise IdentityError(f"the events of a parent must be an array, not {kind_of(events)}", field="events")
    prefix = inherited_prefix(events) if events else ()
    options: Any = parent.options
    header = session_header(parent)
    context: JsonObject = {
        "options": dict(options) if isinstance(options, Mapping) else options,
        "session": {name: header[name] for name in _SESSION_MEMBERS if name in header},
    }
    if composition := _composition(parent, prefix):
        context["composition"] = composition
    context = _detached(context)
    if inherits_parent_context:
        context["inheritedMessages"] = _inherited_messages(prefix)
    return context


def parent_context_fingerprint(context: JsonObject) -> str:
    """Digest of a normalised parent context."""
    return digest({"kind": "dsh-subagent/parent-context", "value": context})


def parent_fingerprint(parent: ParentAgent, inherits_parent_context: bool) -> str:  # noqa: FBT001
    """``parent_context_fingerprint`` of a parent as it is now; quick for one without options, history and composition."""
    if (
        not parent.approval_present
        and parent.composed_preset is ABSENT
        and parent.sandbox_override is ABSENT
        and type(parent.options) is dict
        and not parent.options
        and not (inherits_parent_context and parent.events)
    ):
        header = session_header(parent)
        if not header:
            return _plain_parent_fingerprint(_NO_SESSION, inherits_parent_context)
        session = tuple(header.get(name, ABSENT) for name in _SESSION_MEMBERS)
        if all(type(value) in _PLAIN_KEYS for value in session):
            return _plain_parent_fingerprint(session, inherits_parent_context)
    return parent_context_fingerprint(normalize_parent_context(parent, inherits_parent_context))


def session_header(parent: ParentAgent) -> Mapping[str, Any]:
    """The session header of a parent; ``IdentityError`` where it is no object."""
    header = parent.header
    if type(header) is not dict and not isinstance(header, Mapping):
        raise IdentityError(f"the session header of a parent must be an object, not {kind_of(header)}", field="header")
    return header


def slug(label: str | None) -> str:
    """The readable part of a call key: lower-cased, everything but a-z and 0-9 as single dashes, at most 32 characters."""
    if not label:
        return "agent"
    return _short_slug(label) if len(label) <= _SHORT_LABEL else _slug(label)


def _slug(label: str) -> str:
    dashed = _OUTSIDE_SLUG.sub("-", label.lower()).removeprefix("-").removesuffix("-")
    return dashed[:_SLUG_LENGTH] or "agent"


_short_slug: Final = lru_cache(maxsize=512)(_slug)  # a run has few labels, and calls each of them often


def call_key(parent_key: str, label: str | None, context_fingerprint: str, fingerprint: str, occurrence: int) -> str:
    """The readable key of a call; ``label`` is None for a request without one. The fingerprints are digests."""
    pair = f'{{"parentContextFingerprint":"{context_fingerprint}","requestFingerprint":"{fingerprint}"}}'
    prefix = hashlib.sha256(pair.encode()).hexdigest()[:12]
    return f"{parent_key}/{slug(label)}-{prefix}~{occurrence}"


_NO_SESSION: Final = (ABSENT,) * len(_SESSION_MEMBERS)
_PLAIN_KEYS: Final = frozenset({str, int, type(ABSENT)})  # types whose equal values have one canonical spelling


@lru_cache(maxsize=256)
def _plain_parent_fingerprint(session: tuple[Any, ...], inherits_parent_context: bool) -> str:  # noqa: FBT001
    header = {name: value for name, value in zip(_SESSION_MEMBERS, session, strict=True) if value is not ABSENT}
    return parent_context_fingerprint(normalize_parent_context(ParentAgent(header=header), inherits_parent_context))


def _composition(parent: ParentAgent, prefix: Any) -> JsonObject:
    composition: JsonObject = {}
    if parent.composed_preset is not ABSENT:
        if not isinstance(parent.composed_preset, str):
            raise IdentityError("the composed agent preset of a parent must be a string", field="composition.agentPreset")
        composition["agentPreset"] = parent.composed_preset
    for event in reversed(prefix):
        if isinstance(event, Mapping) and event.get("type") == "request/header":
            data = event.get("data")
            header = data.get("header") if isinstance(data, Mapping) else None
            if isinstance(header, Mapping):
                composition.update((name, header[name]) for name in ("system", "tools") if name in header)
            break
    if parent.sandbox_override is not ABSENT:
        composition["sandboxMode"] = parent.sandbox_override
    if parent.approval_present:
        composition["approvalPolicy"] = "never"
    return composition


def _inherited_messages(prefix: Any) -> list[JsonObject]:
    """The messages on the surface of ``prefix`` without their ids, tool calls numbered by first appearance."""
    names: dict[str, str] = {}

    def renamed(item: JsonObject, member: str) -> None:
        name = item.get(member)
        if isinstance(name, str):
            item[member] = names.setdefault(join_pairs(name), f"call-{len(names) + 1}")

    messages = []
    for index, original in enumerate(fold_surface(prefix)):
        if not isinstance(original, Mapping):
            raise IdentityError(f"inherited message {index} is not an object", field=f"inheritedMessages.{index}")
        message = _detached({name: value for name, value in original.items() if name != "id"})
        source = message.get("source")
        if isinstance(source, dict) and source.get("kind") == "tool":
            renamed(source, "callId")
        content = message.get("content")
        blocks = list(reversed(content)) if isinstance(content, list) else []
        while blocks:
            block = blocks.pop()
            kind = block.get("type") if isinstance(block, dict) else None
            if kind == "tool-call":
                renamed(block, "id")
            elif kind == "tool-result":
                renamed(block, "toolCallId")
                if isinstance(block.get("content"), list):
                    blocks.extend(reversed(block["content"]))
        messages.append(message)
    return messages


def _facts(members: Mapping[str, Any], prompt_bytes: int) -> tuple[Any, ...]:
    """The values of ``RequestMetadata`` in field order; None for what the request does not have."""
    prompt = members.get("prompt")
    if type(prompt) is not list and not isinstance(prompt, (list, tuple)):
        raise IdentityError("a request needs a prompt that is an array of content blocks", field="prompt")
    label, options, limit = members.get("label"), members.get("agentOptions"), members.get("maxDepth")
    provider = model = None
    if isinstance(options, dict):
        provider, model = options.get("provider"), options.get("model")
    return (
        len(prompt),
        prompt_bytes,
        "outputSchema" in members,
        "persona" in members,
        _plain_text(label) if isinstance(label, str) else label,
        _plain_text(provider) if isinstance(provider, str) else None,
        _plain_text(model) if isinstance(model, str) else None,
        limit if limit is None or type(limit) is int else detach(limit),
        _closed_filter(members["toolFilter"]) if "toolFilter" in members else None,
    )


def _closed_filter(tool_filter: Any) -> JsonObject:
    """A copy of a tool filter of the closed shape: optional string arrays ``allow`` and ``deny``."""
    if not isinstance(tool_filter, dict) or not tool_filter.keys() <= {"allow", "deny"}:
        raise IdentityError("a tool filter is an object with the members allow and deny, and no others", field="toolFilter")
    for name, tools in tool_filter.items():
        if not isinstance(tools, (list, tuple)) or not all(isinstance(tool, str) for tool in tools):
            raise IdentityError(f"{name} of a tool filter must be an array of strings", field=f"toolFilter.{name}")
    return {_plain_text(name): [_plain_text(tool) for tool in tools] for name, tools in tool_filter.items()}


def _plain_text(text: str) -> str:
    """``text`` as JSON gives it back: no subclass (a member of an enumeration, say), no split surrogate pairs."""
    if type(text) is str and text.isascii():
        return text
    return join_pairs(text if type(text) is str else str.__str__(text))


def _canonical(value: Any, name: str) -> bytes:
    try:
        return canonical(value)
    except CanonicalError:
        raise _not_lossless(value, name) from None


def _detached(value: JsonObject) -> JsonObject:
    try:
        copy: JsonObject = detach(value)
    except CanonicalError:
        raise _not_lossless(value, "") from None
    return copy


def _not_lossless(value: Any, name: str) -> IdentityError:
    """Says which member of ``value`` is not lossless plain JSON, and why."""
    path, reason = _first_offence(value, name)
    return IdentityError(f"{path or 'the value'} is not lossless plain JSON: {reason}", field=path or None)


def _first_offence(value: Any, name: str) -> tuple[str, str]:
    """Dotted path and reason of the first thing in ``value``, in document order, that has no canonical JSON."""
    work: list[tuple[Any, tuple[Any, Any] | None]] = [(value, (None, name) if name else None)]
    within: dict[int, Any] = {}
    while work:
        item, place = work.pop()
        if place is _LEAVE:
            within.pop(id(item))
        elif isinstance(item, (list, tuple, dict)):
            if id(item) in within:
                return _dotted(place), "it contains itself"
            within[id(item)] = item
            work.append((item, _LEAVE))
            members = list(item.items() if isinstance(item, dict) else enumerate(item))
            for key, _ in members:
                if isinstance(item, dict) and not isinstance(key, str):
                    return _dotted(place), f"a member name is {type(key).__name__}, not a string"
            work.extend((child, (place, key)) for key, child in reversed(members))
        else:
            try:
                canonical(item)
            except CanonicalError as error:
                return _dotted(place), str(error)
    return name, "it changed while it was read"


_LEAVE: Final = (None, None)


def _dotted(place: Any) -> str:
    """``prompt.0.text``; names with anything but word characters quoted, long paths cut in the middle."""
    keys = []
    while place is not None:
        place, key = place
        keys.append(str(key) if isinstance(key, int) or (key.isascii() and key.replace("-", "_").isidentifier()) else repr(key))
    keys.reverse()
    if len(keys) > 12:
        keys = [*keys[:6], f"({len(keys) - 12} more)", *keys[-6:]]
    return ".".join(keys)
