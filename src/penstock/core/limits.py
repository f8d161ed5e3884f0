"""The limits of buffers, queues, caches and messages. Those that are settings in Kafka have Kafka's defaults."""

from __future__ import annotations

from typing import Final

REQUEST_BYTES_MAX: Final = 100 * 1024 * 1024  # socket.request.max.bytes

# What a client receives as one response. A fetch returns its first batch whole however large it is, so this is far
# above any fetch size. The first bytes of an HTTP response, read as a size, are above it.
RESPONSE_BYTES_MAX: Final = 1024 * 1024 * 1024

# Structs and strings in the arrays of one message. The largest valid messages list the partitions of a huge cluster.
MESSAGE_ELEMENTS_MAX: Final = 500_000

# The receive buffer of a connection. Large enough for many small requests per read; its pages are untouched, and cost
# nothing, until bytes arrive.
RECEIVE_BUFFER_BYTES: Final = 256 * 1024
# Buffers of connections that have ended are kept for the next ones.
RECEIVE_BUFFERS_POOLED_MAX: Final = 32
# A receive buffer that grew for a large request is kept up to this size. It fits the usual megabyte of batches, so that
# the connection of a busy producer does not allocate for each request.
RECEIVE_BUFFER_RETAINED_BYTES_MAX: Final = 2 * 1024 * 1024

# Requests of one connection that wait for their responses. Clients keep five in flight; above this limit the broker
# stops reading from the connection.
PIPELINED_REQUESTS_MAX: Final = 1000
# Responses that the peer has not received yet. Records do not count: they are sent from their files.
UNSENT_RESPONSE_BYTES_MAX: Final = 4 * 1024 * 1024

LISTEN_BACKLOG: Final = 1024

# The decompressed size of a batch that the broker has to decode. Producers send batches of about a megabyte; eight
# kilobytes of zstd can decompress to hundreds of megabytes.
DECOMPRESSED_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024

# Partitions in all fetch sessions together, about 500 bytes each. A client that gets no session is served as well, but
# lists all partitions in every request.
FETCH_SESSION_PARTITIONS_MAX: Final = 200_000
# A fetch session that was not used for this time may be evicted for a new one.
FETCH_SESSION_EVICTION_MS: Final = 120_000

# Cached partitions of groups and transactional ids: every heartbeat needs one, and hashing iterates over the name.
COORDINATOR_KEYS_REMEMBERED_MAX: Final = 4096

# What coordinators load of their topics in one turn of the event loop: a few milliseconds, between which every other
# client is served. A partition that fits is loaded within the request that first needs it.
COORDINATOR_LOAD_RECORDS_PER_TURN: Final = 1000
COORDINATOR_LOAD_BYTES_PER_TURN: Final = 1024 * 1024

# Partitions whose retention is checked in one turn of the event loop: the checks of a broker with thousands of them are
# spread over several turns.
RETENTION_PARTITIONS_PER_TURN: Final = 200
# Requests to one other broker that wait for their responses; further ones wait for a slot, within their own timeout.
PEER_REQUESTS_IN_FLIGHT_MAX: Final = 100
# Connecting to another broker: TCP, TLS, versions and SASL together (Kafka's socket.connection.setup.timeout.ms).
PEER_CONNECTION_SETUP_S: Final = 10.0

# How long a broker that stops waits for others to lead what it leads.
CONTROLLED_SHUTDOWN_S: Final = 30.0

# Keys that the cleaner holds in memory, about 150 bytes each. A log with more is compacted in several passes.
CLEANER_KEYS_MAX: Final = 1_000_000
# The segments of a coordinator's topic. The active one is never compacted, and a start loads it whole.
COORDINATOR_SEGMENT_BYTES_MAX: Final = 2 * 1024 * 1024

# How long the files of a partition that belongs to no topic are kept: those of a deletion that a crash interrupted, or
# files that were copied into the data directory by mistake.
STRAY_DIRECTORY_KEPT_MS: Final = 7 * 24 * 3600 * 1000

# Users, client ids and addresses whose use of a quota is measured, about 400 bytes each. Further ones share a meter.
QUOTA_METERS_MAX: Final = 20_000

# Groups and client metrics in one configuration request: they need not exist, and each is described in full.
CONFIG_RESOURCES_MAX: Final = 1000
# Entities in one AlterClientQuotas request.
QUOTA_ENTRIES_MAX: Final = 10_000

# Threads that sync logs when a broker stops.
SYNC_THREADS_MAX: Final = 16

# ACLs of the cluster, about 700 bytes each, and users with a SCRAM credential.
ACLS_MAX: Final = 100_000
SCRAM_CREDENTIALS_MAX: Final = 100_000
# What a connection remembers of the decisions about its client; a client uses few names.
ACCESS_DECISIONS_REMEMBERED_MAX: Final = 1000

# Handshakes of TLS that are under way, about a millisecond of arithmetic and 50 KB each. Further connections wait, up
# to the second limit; those beyond it are closed. While others wait, a handshake has less time.
TLS_HANDSHAKES_MAX: Final = 256
TLS_HANDSHAKES_WAITING_MAX: Final = 1000
TLS_HANDSHAKE_TIMEOUT_S: Final = 30.0
TLS_HANDSHAKE_TIMEOUT_WHILE_OTHERS_WAIT_S: Final = 1.0
# What is encrypted ahead of what the peer takes, for each connection.
TLS_WRITE_BYTES_MAX: Final = 64 * 1024
# Ciphertext that one read takes from a socket, for all connections together.
TLS_READ_BYTES: Final = 256 * 1024
# How often certificate files and key sets in files are looked at for changes.
CERTIFICATE_CHECK_S: Final = 5.0
# How often a broker of a cluster looks whether its session may have ended, to hang up on its clients then.
SESSION_CHECK_S: Final = 0.25
# A key set of OAUTHBEARER, and how long its server may take.
KEY_SET_BYTES_MAX: Final = 1024 * 1024
KEY_SET_TIMEOUT_S: Final = 10.0

# Scrapers of metrics at a time; further ones are cut off. One Prometheus is usual, two where it is doubled.
METRICS_CONNECTIONS_MAX: Final = 8
METRICS_HEAD_BYTES_MAX: Final = 8 * 1024
METRICS_HEAD_TIMEOUT_S: Final = 5.0
# Prometheus itself gives up after ten seconds.
METRICS_SEND_TIMEOUT_S: Final = 15.0
# Lines of metrics in one turn of the event loop, about half a millisecond.
METRICS_LINES_PER_TURN: Final = 250
# How long `penstock up` waits for the figures of its broker.
METRICS_FETCH_TIMEOUT_S: Final = 8.0
