"""The real DeepSeek Harness, run from Python: prompts, recordings of whole runs, and their replay without key or network.

Needs the extra ``harness``. ``runtime`` runs prompts, ``recording`` records and replays folders, ``provider`` makes a run a
subagent. ``plugin.mjs`` is mounted in the runtime and talks to Python over ``channel``; ``trace`` keeps what it tells,
``flights`` makes flight records of it, and ``script`` answers it in a replay.
"""
