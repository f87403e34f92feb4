"""Records a cassette: a subagent provider that passes every call on to the real one and writes down how it ended.

A call gets its place and number when it is admitted, and its line when it has ended. The caller gets the upstream's own
result; what goes into the file is redacted. Whatever one call does, the next one is recorded.
Source: cassette format, Recording.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from cassette_lab.cassette.identity import RequestIdentity, call_key
from cassette_lab.cassette.members import interaction_members, metadata_members
from cassette_lab.cassette.model import RequestMetadata, StoredRequest
from cassette_lab.cassette.progress import Progress
from cassette_lab.cassette.recorded_run import RecordedRun
from cassette_lab.cassette.redaction import Redactor
from cassette_lab.cassette.runs import Run, Turns
from cassette_lab.cassette.schema import SchemaError, check_request
from cassette_lab.cassette.topology import TopologyTracker
from cassette_lab.cassette.writer import CassetteWriter
from cassette_lab.contracts import ROOT_PARENT, Capabilities, SubagentProviders, SubagentRequest
from cassette_lab.errors import AbortError, ClosedError, FormatError, IdentityError, NoUpstreamError
from cassette_lab.jsonio import JsonObject


class NotAdmittedError(ClosedError):
    """The call came when the recording was closing already: nothing of it is recorded, and the upstream was not asked."""


class RecordingProvider:
    """The provider that records into ``writer``, whose header says from whom and how.

    ``providers`` is asked for the upstream at every call. ``redactor`` works on what is stored; ``redact_labels`` lets it
    work on labels and names too. The provider goes on where the file ends (append).
    """

    def __init__(
        self,
        writer: CassetteWriter,
        providers: SubagentProviders,
        redactor: Redactor,
        *,
        redact_labels: bool = False,
    ) -> None:
        facts = writer.header.provider
        self.name: str = facts.cassette
        self.capabilities: Capabilities = facts.capabilities
        self.inherits_parent_context: bool = facts.inherits_parent_context
        self.progress = Progress()
        self._writer = writer
        self._providers = providers
        self._upstream = facts.upstream
        self.redactor = redactor
        self._redact_labels = redact_labels
        self._topology = TopologyTracker(self.inherits_parent_context, writer.existing)
        self._sequence = writer.next_sequence - 1
        self._calls: dict[int, RecordedRun] = {}
        self._unwatched: list[RecordedRun] = []
        self._turns = Turns()
        self._closing = False
        self._closed = False
        self._kept_back: list[JsonObject] = []

    async def start(self, request: SubagentRequest) -> Run:
        """Start the upstream's run, recorded from here on.

        Raises before anything is reserved: ``NotAdmittedError``, ``NoUpstreamError``, ``IdentityError`` (no identity, or not
        to be stored), ``AmbiguityError`` (no place), ``ConfigError`` (a redaction pattern that hits a protected member).
        Afterwards whatever the upstream's start raises, once it is recorded.
        """
        __tracebackhide__ = True
        if self._turns.due:
            await self._turns.give()
        if self._closing:
            raise NotAdmittedError("the cassette is being closed and takes no more calls", path=self._writer.path)
        upstream = self._providers.get(self._upstream)
        if upstream is None:
            raise NoUpstreamError(f"no provider {self._upstream!r} is registered any more; register it again to record from it")
        call = self._admit(request)
        task = asyncio.current_task()
        cancellations = task.cancelling() if task is not None else 0
        try:
            run = await upstream.start(request)
        except BaseException as error:
            call.start_failed(error)
            raise
        try:
            _check_wanted(call, cancelled=task is not None and task.cancelling() > cancellations)
            if run.local_agent is not None:
                self._topology.register_local_child(run.local_agent, call.reservation.call_key)
        except BaseException as error:
            call.start_failed(error)
            with contextlib.suppress(Exception):
                await run.dispose()
            raise
        call.publish(run)
        self._unwatched.append(call)
        if len(self._unwatched) == 1:
            asyncio.get_running_loop().call_soon(self._watch)
        return call

    async def abort(self, grace_s: float) -> None:
        """Stop every admitted call. Those without an outcome after ``grace_s`` seconds are recorded as aborted as they are."""
        if self._calls:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await asyncio.gather(*(call.stop() for call in self._calls.values()), return_exceptions=True)
                    await self.progress.idle()
        for call in list(self._calls.values()):
            call.give_up()

    async def dispose(self) -> None:
        """Take no more calls, wait for those that are out, then sync and close the file.

        May wait as long as the upstream does. Raises ``FormatError`` for a file that lacks calls or could not be synced.
        """
        self._closing = True
        await self.progress.idle()
        self.close()

    def close(self) -> None:
        """Sync and close the file as it is; calls that are out are recorded as aborted. Idempotent. Raises as ``dispose``."""
        self._closing = True
        if self._closed:
            return
        self._closed = True
        for call in list(self._calls.values()):
            call.give_up()
        try:
            self._write_kept_back()
        finally:
            self._writer.close()

    def write(self, call: RecordedRun, timing: JsonObject, outcome: JsonObject) -> None:
        """Append the line of a call that has ended.

        ``FormatError`` where the outcome cannot be stored or the line not be written. A line with an error is then tried
        again, after the next line and at the end: a file that lacks a call is good for nothing.
        """
        place = call.reservation
        interaction = interaction_members(
            call.sequence,
            place.call_key,
            place.group,
            place.occurrence,
            call.stored,
            timing,
            outcome["kind"] != "start-error",
            call.local_agent is not None,
            outcome,
        )
        try:
            self._writer.write(interaction)
        except FormatError:
            if "error" in outcome:
                self._kept_back.append(interaction)
            raise
        if self._kept_back:
            with contextlib.suppress(FormatError):
                self._write_kept_back()

    def ended(self, call: RecordedRun) -> None:
        """Forget a call that has its outcome."""
        del self._calls[call.sequence]

    def _watch(self) -> None:
        """Watch the runs whose callers have not asked for the result at once."""
        calls, self._unwatched = self._unwatched, []
        for call in calls:
            call.watch()

    def _admit(self, request: SubagentRequest) -> RecordedRun:
        """Everything that can fail, then the reservation of place and number."""
        identity = RequestIdentity(request.to_json())
        stored = self._stored(identity)
        reservation = self._topology.reserve(identity, request.parent or ROOT_PARENT)
        label: str | None = identity.label or None  # text or nothing: that has been checked
        if self._redact_labels and label is not None:
            label = self.redactor.text(label)[0]
            key = call_key(
                reservation.parent_key,
                label,
                reservation.parent_context_fingerprint,
                reservation.request_fingerprint,
                reservation.occurrence,
            )
            reservation = reservation._replace(call_key=key)
        self._sequence += 1
        call = RecordedRun(self, self._sequence, reservation, stored, self.progress.start(label), request.signal)
        self._calls[self._sequence] = call
        return call

    def _stored(self, identity: RequestIdentity) -> JsonObject:
        """The request as the file keeps it; refuses one that the format cannot hold."""
        if self._writer.header.request_storage == "full":
            value, redactions = self.redactor.request(identity.value)
            stored = StoredRequest(value=value, redactions=redactions).to_json()
        else:
            metadata = metadata_members(identity.facts)
            if self._redact_labels:
                metadata = self._without_secrets(identity.metadata).to_json()
            stored = {"storage": "metadata", "metadata": metadata}
            if "maxDepth" not in metadata:  # the one member of metadata that an identity does not check
                return stored
        try:
            check_request(stored)
        except SchemaError as error:
            field = (error.field or "request").removeprefix("request.").removeprefix("metadata.").removeprefix("value.")
            reason = error.message.removeprefix(error.field or "")
            raise IdentityError(f"the request cannot be recorded: {field}{reason}", field=field) from None
        return stored

    def _without_secrets(self, metadata: RequestMetadata) -> RequestMetadata:
        def clean(text: str | None) -> str | None:
            return None if text is None else self.redactor.text(text)[0]

        tools = metadata.tool_filter
        return replace(
            metadata,
            label=clean(metadata.label),
            child_provider=clean(metadata.child_provider),
            child_model=clean(metadata.child_model),
            tool_filter=None if tools is None else {name: [clean(tool) for tool in names] for name, names in tools.items()},
        )

    def _write_kept_back(self) -> None:
        while self._kept_back:
            self._writer.write(self._kept_back[0])
            del self._kept_back[0]


def _check_wanted(call: RecordedRun, *, cancelled: bool) -> None:
    """Raise where the upstream has started a run that nobody waits for any more."""
    if cancelled:  # and the upstream kept it to itself
        raise asyncio.CancelledError
    if call.settled:
        raise AbortError("the cassette was closed while the run was starting")
