"""Every bound on what a peer can make us hold, in one place. Those that Kafka lets users set are its defaults."""

from __future__ import annotations

from typing import Final

REQUEST_BYTES_MAX: Final = 100 * 1024 * 1024  # socket.request.max.bytes

# What a client receives as one response. A fetch returns its first batch whole however large it is, so this is far
# above any fetch size. The first bytes of an HTTP response, read as a size, are above it.
RESPONSE_BYTES_MAX: Final = 1024 * 1024 * 1024

# Structs and strings in the arrays of one message. The largest honest messages name the partitions of a huge cluster.
MESSAGE_ELEMENTS_MAX: Final = 500_000

# What a connection reads into. Large enough that one read takes in many small requests; the pages are not touched, and
# so cost nothing, until bytes arrive.
RECEIVE_BUFFER_BYTES: Final = 256 * 1024
# A buffer that a large request has grown stays that large only up to here. It holds the usual megabyte of batches, so
# that a busy producer's connection does not allocate for each request.
RECEIVE_BUFFER_RETAINED_BYTES_MAX: Final = 2 * 1024 * 1024

# Requests of one connection that wait for their answers. Clients keep five in flight; a peer that asks for more than
# this is not read from until the line has moved.
PIPELINED_REQUESTS_MAX: Final = 1000
# Answers that a peer has not taken yet. Records are not counted: they are sent from their files.
UNSENT_RESPONSE_BYTES_MAX: Final = 4 * 1024 * 1024

LISTEN_BACKLOG: Final = 1024

# What one compressed batch may unfold to, where the broker has to look inside. Producers fill batches of a megabyte or
# so; eight kilobytes of zstd can unfold to hundreds.
DECOMPRESSED_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024

# Partitions that all fetch sessions together may remember; about 500 bytes each. A client that gets no session for lack
# of them sends everything every time, and is served all the same.
FETCH_SESSION_PARTITIONS_MAX: Final = 200_000
# A fetch session that was not used for so long may make room for a new one.
FETCH_SESSION_EVICTION_MS: Final = 120_000

# Groups and transactional ids whose partition is remembered: every heartbeat asks for it, and hashing walks the name.
COORDINATOR_KEYS_REMEMBERED_MAX: Final = 4096

# What coordinators load of their topics in one turn of the event loop: a few milliseconds, between which every other
# client is served. A partition that fits is loaded within the request that first needs it.
COORDINATOR_LOAD_RECORDS_PER_TURN: Final = 1000
COORDINATOR_LOAD_BYTES_PER_TURN: Final = 1024 * 1024

# Threads that sync logs when a broker stops.
SYNC_THREADS_MAX: Final = 16
