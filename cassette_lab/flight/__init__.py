"""Flight records: what agents sent to models and how long it took, without any text of it.

``recorder`` keeps them, ``observer`` watches a host, ``insight``, ``diff`` and ``command`` tell about them, ``persist`` and
``reader`` put them into files and read them.
"""
