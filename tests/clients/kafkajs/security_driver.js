// Produces to a topic and reads from it, with the configuration in each line of JSON: the answer is {"result": "ok"} or
// {"error": text}. With "hold_ms" it goes on producing by the same connections for that long.
'use strict'

const fs = require('fs')
const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

function configuration(request) {
  const { brokers, ssl, sasl } = request
  const config = { clientId: 'security', brokers, logLevel: logLevel.NOTHING, requestTimeout: 5000, retry: { retries: 1 } }
  if (ssl) {
    config.ssl = { ca: [fs.readFileSync(ssl.ca)], servername: 'localhost' }
    if (ssl.certificate) {
      config.ssl.cert = config.ssl.key = fs.readFileSync(ssl.certificate)
    }
  }
  if (sasl) {
    const { mechanism, username, password, token } = sasl
    config.sasl = token
      ? { mechanism, oauthBearerProvider: async () => ({ value: token }) }
      : { mechanism, username, password }
  }
  return config
}

async function attempt(request) {
  const kafka = new Kafka(configuration(request))
  const producer = kafka.producer()
  const until = Date.now() + (request.hold_ms || 0)
  await producer.connect()
  try {
    do {
      await producer.send({ topic: request.topic, messages: [{ value: 'kafkajs' }] })
      if (Date.now() < until) {
        await new Promise(resolve => setTimeout(resolve, 50))
      }
    } while (Date.now() < until)
  } finally {
    await producer.disconnect()
  }
  const consumer = kafka.consumer({ groupId: `kafkajs-${process.pid}-${Date.now()}` })
  await consumer.connect()
  try {
    await consumer.subscribe({ topic: request.topic, fromBeginning: true })
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, event => reject(event.payload.error))
      consumer.run({ eachMessage: async () => resolve() }).catch(reject)
    })
  } finally {
    await consumer.disconnect()
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer
    try {
      await attempt(JSON.parse(line))
      answer = { result: 'ok' }
    } catch (error) {
      answer = { error: `${error.name}: ${error.message}` }
    }
    console.log(JSON.stringify(answer))
  }
}

main()
