// Drives kafkajs by a line of JSON for each call; see ../json_lines_client.py for the form of requests and answers.
//
// kafkajs has no consumer without a group. Reading a partition here goes through the parts that its own consumer is made
// of: the cluster finds the partition's leader, that broker fetches and decodes, and a batch drops what lies before the
// offset asked for. kafkajs itself is unmodified.
'use strict'

const readline = require('readline')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, AssignerProtocol, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const Batch = require('kafkajs/src/consumer/batch')
const socketFactory = require('kafkajs/src/network/socketFactory')
const { createLogger } = require('kafkajs/src/loggers')
const loggerConsole = require('kafkajs/src/loggers/console')

const brokers = [process.argv[2]]
const TOPIC_ALREADY_EXISTS = 36
const EARLIEST = -2
const LATEST = -1
const READ_UNCOMMITTED = 0
const READ_COMMITTED = 1

// kafkajs brings gzip; the other codecs are plugged in by its users, from packages of their choice.
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
const zstdReady = new Promise(resolve => require('zstd-codec').ZstdCodec.run(resolve))
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  // The streaming calls: librdkafka's frames do not tell the size of their content.
  compress: async encoder => Buffer.from(new (await zstdReady).Streaming().compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(new (await zstdReady).Streaming().decompress(buffer)),
})

const compressionTypes = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

// Patience that suits a test.
const requestTimeout = 10000
const retry = { retries: 3 }
const kafka = new Kafka({ clientId: 'matrix', brokers, logLevel: logLevel.NOTHING, requestTimeout, retry })
const admin = kafka.admin()
const cluster = new Cluster({
  logger: createLogger({ level: logLevel.NOTHING, logCreator: loggerConsole }),
  socketFactory: socketFactory(),
  brokers,
  clientId: 'matrix-reader',
  connectionTimeout: 1000,
  requestTimeout,
  retry,
  enforceRequestTimeout: true,
  metadataMaxAge: 300000,
  allowAutoTopicCreation: false,
  isolationLevel: READ_COMMITTED,
})

const decode = text => (text === null ? null : Buffer.from(text, 'base64'))
const encode = buffer => (buffer === null ? null : buffer.toString('base64'))

function toMessage(record, partition) {
  const headers = {}
  for (const [name, value] of record.headers) {
    headers[name] = name in headers ? [].concat(headers[name], [decode(value)]) : decode(value)
  }
  const message = { partition, key: decode(record.key), value: decode(record.value), headers }
  if (record.timestamp_ms !== null) {
    message.timestamp = String(record.timestamp_ms)
  }
  return message
}

function fromMessage(message) {
  const headers = Object.entries(message.headers).flatMap(([name, values]) =>
    [].concat(values).map(value => [name, encode(value)])
  )
  const { offset, timestamp, key, value } = message
  return { offset, timestamp_ms: timestamp, key: encode(key), value: encode(value), headers }
}

async function topicConfig(topic) {
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  const { resources } = await admin.describeConfigs({ resources: [resource], includeSynonyms: false })
  return Object.fromEntries(resources[0].configEntries.map(entry => [entry.configName, entry.configValue]))
}

// What outlives a call, under the number that its caller was given.
const members = new Map()
const producers = new Map()
let lastNumber = 0

function newConsumer(membership) {
  return kafka.consumer({
    groupId: membership.group,
    sessionTimeout: membership.session_timeout_ms,
    heartbeatInterval: membership.heartbeat_interval_ms,
    // It sends heartbeats between fetches, so that a long fetch would keep it from hearing of a rebalance.
    maxWaitTimeInMs: membership.heartbeat_interval_ms,
    retry: { ...retry, restartOnFailure: async () => false },
  })
}

async function run(member, membership) {
  const { consumer, rebalances, received } = member
  let assigned = []
  const revoke = () => {
    if (assigned.length > 0) {
      rebalances.push(['revoked', assigned])
      assigned = []
    }
  }
  consumer.on(consumer.events.REBALANCING, revoke)
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    revoke()
    assigned = payload.memberAssignment[membership.topic] ?? []
    rebalances.push(['assigned', assigned])
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    member.failure = payload.error
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [membership.topic], fromBeginning: true })
  await consumer.run({
    autoCommit: membership.auto_commit,
    autoCommitInterval: membership.auto_commit_interval_ms,
    eachMessage: async ({ partition, message }) => {
      received.push([partition, message.offset, encode(message.value)])
    },
  })
}

const calls = {
  version: async () => require('kafkajs/package.json').version,

  async produce({ topic, partition, records, compression, acks, idempotent }) {
    const producer = kafka.producer({ idempotent })
    await producer.connect()
    try {
      await producer.send({
        topic,
        acks: acks === 'all' ? -1 : Number(acks),
        compression: compressionTypes[compression],
        messages: records.map(record => toMessage(record, partition)),
      })
    } finally {
      await producer.disconnect()
    }
  },

  async consume({ topic, partition, count, offset, isolation, timeout_ms: timeoutMs }) {
    await cluster.addTargetTopic(topic)
    await cluster.refreshMetadata()
    const [leader] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]))
    const broker = await cluster.findBroker({ nodeId: leader })
    const records = []
    const deadline = Date.now() + timeoutMs
    let next = String(offset)
    while (records.length < count && Date.now() < deadline) {
      const { responses } = await broker.fetch({
        maxWaitTime: 500,
        minBytes: 1,
        maxBytes: 10485760,
        isolationLevel: isolation === 'read_committed' ? READ_COMMITTED : READ_UNCOMMITTED,
        topics: [{ topic, partitions: [{ partition, fetchOffset: next, maxBytes: 1048576 }] }],
        rackId: '',
      })
      const batch = new Batch(topic, next, responses[0].partitions[0])
      records.push(...batch.messages.map(fromMessage))
      if (!batch.isEmptyIncludingFiltered()) {
        next = String(BigInt(batch.lastOffset()) + 1n)
      }
    }
    return records.slice(0, count)
  },

  async create_topic({ topic, partitions, config }) {
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
    const topics = [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }]
    // kafkajs turns exactly this refusal into a result of false, and throws all others.
    if (!(await admin.createTopics({ topics, waitForLeaders: true }))) {
      throw Object.assign(new Error('the topic exists'), { code: TOPIC_ALREADY_EXISTS })
    }
  },

  list_topics: () => admin.listTopics(),

  async partition_count({ topic }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.length
  },

  async add_partitions({ topic, total }) {
    await admin.createPartitions({ topicPartitions: [{ topic, count: total }] })
  },

  describe_config: ({ topic }) => topicConfig(topic),

  async alter_config({ topic, name, value }) {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }
    await admin.alterConfigs({ validateOnly: false, resources: [resource] })
  },

  async delete_records({ topic, partition, before_offset: offset }) {
    // deleteTopicRecords looks for the leader among the topics that this admin has seen, without asking the broker.
    await admin.fetchTopicOffsets(topic)
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] })
  },

  async delete_topic({ topic }) {
    await admin.deleteTopics({ topics: [topic] })
  },

  async broker_ports() {
    const described = await admin.describeCluster()
    return described.brokers.map(({ port }) => port)
  },

  async list_offset({ topic, partition, at }) {
    if (at === EARLIEST || at === LATEST) {
      const offsets = await admin.fetchTopicOffsets(topic)
      const found = offsets.find(each => each.partition === partition)
      return Number(at === EARLIEST ? found.low : found.high)
    }
    const offsets = await admin.fetchTopicOffsetsByTimestamp(topic, at)
    return Number(offsets.find(each => each.partition === partition).offset)
  },

  async join(membership) {
    const number = ++lastNumber
    const member = { consumer: newConsumer(membership), topic: membership.topic, group: membership.group, rebalances: [], received: [] }
    members.set(number, member)
    await run(member, membership)
    return number
  },

  async member_state({ member }) {
    const { rebalances, received, failure } = members.get(member)
    if (failure) {
      throw failure
    }
    return { rebalances, received }
  },

  async member_commit({ member, offsets }) {
    const { consumer, topic } = members.get(member)
    await consumer.commitOffsets(offsets.map(([partition, offset]) => ({ topic, partition, offset: String(offset) })))
  },

  async member_close({ member }) {
    const { consumer } = members.get(member)
    members.delete(member)
    await consumer.disconnect()
  },

  async committed({ group, topic }) {
    const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    return partitions.filter(({ offset }) => offset !== '-1').map(({ partition, offset }) => [partition, Number(offset)])
  },

  async alter_committed({ group, topic, offsets }) {
    const partitions = offsets.map(([partition, offset]) => ({ partition, offset: String(offset) }))
    await admin.setOffsets({ groupId: group, topic, partitions })
  },

  async list_groups() {
    const { groups } = await admin.listGroups()
    return groups.map(({ groupId }) => groupId)
  },

  async describe_group({ group }) {
    const { groups } = await admin.describeGroups([group])
    const assignments = groups[0].members.map(({ memberAssignment }) =>
      Object.values(AssignerProtocol.MemberAssignment.decode(memberAssignment).assignment).flat()
    )
    return { state: groups[0].state, assignments }
  },

  async delete_group({ group }) {
    await admin.deleteGroups([group])
  },

  async open_producer({ transactional_id: transactionalId }) {
    const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    producers.set(++lastNumber, { producer })
    return lastNumber
  },

  async producer_begin({ producer }) {
    const opened = producers.get(producer)
    opened.transaction = await opened.producer.transaction()
  },

  async producer_send({ producer, topic, partition, records }) {
    const messages = records.map(record => toMessage(record, partition))
    await producers.get(producer).transaction.send({ topic, messages })
  },

  async producer_send_offsets({ producer, member, offsets }) {
    const { topic, group } = members.get(member)
    const partitions = offsets.map(([partition, offset]) => ({ partition, offset: String(offset) }))
    const topics = [{ topic, partitions }]
    await producers.get(producer).transaction.sendOffsets({ consumerGroupId: group, topics })
  },

  async producer_commit({ producer }) {
    await producers.get(producer).transaction.commit()
  },

  async producer_abort({ producer }) {
    await producers.get(producer).transaction.abort()
  },

  async producer_close({ producer }) {
    await producers.get(producer).producer.disconnect()
    producers.delete(producer)
  },
}

async function answer(line) {
  const { call, ...parameters } = JSON.parse(line)
  try {
    return { result: (await calls[call](parameters)) ?? null }
  } catch (error) {
    const code = Number.isInteger(error.code) ? error.code : null
    return { error: String(error.stack), code }
  }
}

async function main() {
  await admin.connect()
  await cluster.connect()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await answer(line)) + '\n')
  }
  await cluster.disconnect()
  await admin.disconnect()
}

main()
