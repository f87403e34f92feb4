// Watches the model calls of a DeepSeek Harness runtime, or answers them from a recording.
//
// Mounted by its path with a `--patch` file. It talks to Python over a socket of this machine, one JSON document a line.
// What it tells has no content: texts are lengths, schemas have neither names nor strings, and of each message goes a digest
// by which Python can say whether it was the same in another run. With `replay` set, Python's chunks answer each call.

import { createHash } from 'node:crypto'
import { connect } from 'node:net'

export const name = 'cassette-lab'
export const inject = ['llm', 'agents']

const MAX_SCHEMA_NODES = 4200 // a little more than any observer counts

export function apply(ctx, config) {
  const channel = openChannel(config)
  const signals = new WeakMap()
  let signalCount = 0
  let streamCount = 0
  let lastTools

  const labelOf = (signal) => {
    if (signal === undefined || signal === null) return null
    if (!signals.has(signal)) signals.set(signal, `s${++signalCount}`)
    return signals.get(signal)
  }
  const idOf = (agent) => (agent === undefined || agent === null ? null : String(agent.id ?? 'agent'))

  ctx.on('system-prompt/assemble', async (assembly, context, next) => {
    const assembled = await next()
    quietly(() => {
      channel.send({ e: 'assemble', signal: labelOf(context?.signal), agent: idOf(context?.agent), assembly: assemblyOf(assembled) })
    })
    return assembled
  }, { prepend: true })

  ctx.on('agent/request', async (payload, next) => {
    const decided = await next()
    quietly(() => {
      const { agent, signal, turn, step } = payload
      const session = agent?.session?.header?.id ?? agent?.id ?? null
      const parent = agent?.session?.header?.parentSession
      channel.send({ e: 'request', signal: labelOf(signal), agent: idOf(agent), session, turn, step, ...(parent ? { parent } : {}) })
    })
    return decided
  }, { prepend: true })

  ctx.on('llm/stream', (options, next) => {
    const stream = ++streamCount
    quietly(() => {
      const tools = JSON.stringify((options.tools ?? []).map(toolOf))
      channel.send({
        e: 'stream',
        stream,
        marked: options.purpose === undefined,
        signal: labelOf(options.signal),
        sessionId: options.sessionId ?? null,
        initiator: idOf(ctx.agents?.currentInitiator?.()),
        options: { ...optionsOf(options), ...(options.tools === undefined ? {} : tools === lastTools ? { sameTools: true } : { tools: JSON.parse(tools) }) },
        digests: digestsOf(options, config.places ?? []),
      })
      lastTools = options.tools === undefined ? lastTools : tools
    })
    let source
    try {
      source = config.replay ? replayed(channel, stream, options.signal) : next()
    } catch (error) {
      channel.send({ e: 'threw', stream, errorName: errorName(error) })
      throw error
    }
    return watched(channel, stream, source)
  }, { prepend: true })

  ctx.effect(() => () => channel.close())
}

// The channel

function openChannel(config) {
  const socket = connect(config.port, '127.0.0.1')
  const waiting = new Map()
  let open = true
  let rest = ''
  const lose = () => {
    open = false
    for (const { reject } of waiting.values()) reject(failure('the recording is no longer there', 'REPLAY_CLOSED'))
    waiting.clear()
  }
  socket.setNoDelay(true)
  socket.setEncoding('utf8')
  socket.on('error', lose)
  socket.on('close', lose)
  socket.on('data', (text) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()
    for (const line of lines) {
      const answer = JSON.parse(line)
      waiting.get(answer.stream)?.resolve(answer)
      waiting.delete(answer.stream)
    }
  })
  socket.write(`${JSON.stringify({ token: config.token })}\n`)
  socket.unref()
  return {
    send(event) {
      if (open) socket.write(`${JSON.stringify({ ...event, t: performance.now(), at: Date.now() })}\n`)
    },
    answer(stream) {
      if (!open) return Promise.reject(failure('the recording is not there', 'REPLAY_CLOSED'))
      return new Promise((resolve, reject) => waiting.set(stream, { resolve, reject }))
    },
    close() {
      socket.end()
    },
  }
}

function failure(message, code) {
  return Object.assign(new Error(message), { code })
}

function quietly(tell) {
  try {
    tell()
  } catch {
    // watching must not change what it watches
  }
}

// Streams

function watched(channel, stream, source) {
  const iterator = source[Symbol.asyncIterator]()
  let held // the last chunk that was not told, with the number of its kind
  const flush = () => {
    if (held !== undefined) channel.send({ e: 'chunk', stream, ...held })
    held = undefined
  }
  let first = true
  const told = (chunk) => {
    const chunkOf = { type: String(chunk?.type) }
    if (chunk?.type === 'usage') chunkOf.usage = countsOf(chunk.usage)
    if (chunk?.type === 'finish') chunkOf.reason = { kind: String(chunk.reason?.kind), ...codeOf(chunk.reason?.failure) }
    if (first || held === undefined || held.chunk.type !== chunkOf.type || chunkOf.usage || chunkOf.reason) {
      flush()
      held = { chunk: chunkOf, count: 1 }
    } else {
      held.count += 1
    }
    if (first || chunkOf.usage || chunkOf.reason) flush()
    first = false
  }
  const end = (event) => quietly(() => {
    flush()
    channel.send({ stream, ...event })
  })
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    async next() {
      let result
      try {
        result = await iterator.next()
      } catch (error) {
        end({ e: 'threw', errorName: errorName(error) })
        throw error
      }
      if (result.done) end({ e: 'done' })
      else quietly(() => told(result.value))
      return result
    },
    async return(value) {
      end({ e: 'return' })
      return iterator.return === undefined ? { done: true, value } : iterator.return(value)
    },
    async throw(error) {
      end({ e: 'throw-in' })
      if (iterator.throw === undefined) throw error
      return iterator.throw(error)
    },
  }
}

async function* replayed(channel, stream, signal) {
  const aborted = new Promise((_resolve, reject) => {
    if (signal?.aborted) reject(signal.reason)
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  aborted.catch(() => {})
  const answer = await Promise.race([channel.answer(stream), aborted])
  if (answer.delayMs > 0) await Promise.race([new Promise((resolve) => setTimeout(resolve, answer.delayMs)), aborted])
  if (answer.error !== undefined) throw failure(answer.error.message, answer.error.code)
  for (const chunk of answer.chunks) {
    signal?.throwIfAborted()
    yield chunk
  }
  if (answer.hangs) await aborted
}

// What is told of things: their form

function assemblyOf(assembly) {
  const sized = (list) => (list ?? []).map((item) => ({ name: String(item.name), text: lengthOf(item.text) }))
  const names = (list) => (list ?? []).map((item) => String(item?.name ?? item))
  const variables = assembly?.variables
  return {
    sections: sized(assembly?.sections),
    contexts: sized(assembly?.contexts),
    tools: names(assembly?.tools),
    variables: Array.isArray(variables) ? names(variables) : Object.keys(variables ?? {}),
  }
}

function optionsOf(options) {
  const told = {}
  for (const key of ['provider', 'model', 'reasoningEffort', 'temperature', 'maxTokens', 'purpose']) {
    if (options[key] !== undefined) told[key] = options[key]
  }
  if (options.system !== undefined) told.system = lengthOf(options.system)
  if (Array.isArray(options.stop)) told.stop = options.stop.map(lengthOf)
  told.messages = (options.messages ?? []).map((message) => ({
    role: message.role,
    ...(message.source === undefined ? {} : { source: sourceOf(message.source) }),
    content: (message.content ?? []).map((block) => ({ type: String(block?.type), ...(typeof block?.text === 'string' ? { text: block.text.length } : {}) })),
  }))
  return told
}

function sourceOf(source) {
  return { kind: String(source.kind), ...(typeof source.form === 'string' ? { form: source.form } : {}) }
}

function toolOf(tool) {
  const nodes = { left: MAX_SCHEMA_NODES, seen: new Map() }
  return {
    name: String(tool.name),
    description: lengthOf(tool.description),
    ...(tool.parameters === undefined ? {} : { parameters: emptied(tool.parameters, [], nodes) }),
  }
}

function emptied(value, path, nodes) {
  nodes.left -= 1
  if (typeof value === 'string') return ''
  if (value === null || typeof value !== 'object') return value ?? null
  if (nodes.seen.has(value)) return { $alias: nodes.seen.get(value) }
  nodes.seen.set(value, path)
  if (nodes.left < 0 || path.length > 200) return Array.isArray(value) ? [] : {}
  if (Array.isArray(value)) return value.map((item, place) => emptied(item, [...path, place], nodes))
  return Object.fromEntries(Object.values(value).map((item, place) => [String(place), emptied(item, [...path, String(place)], nodes)]))
}

function countsOf(usage) {
  return Object.fromEntries(Object.entries(usage ?? {}).filter(([, count]) => typeof count === 'number'))
}

function codeOf(failed) {
  return typeof failed?.code === 'string' && /^[A-Z][A-Z_0-9]{0,63}$/u.test(failed.code) ? { code: failed.code } : {}
}

function lengthOf(text) {
  return typeof text === 'string' ? text.length : 0
}

function errorName(error) {
  return error instanceof Error ? String(error.name).slice(0, 256) : null
}

// Digests: the same in two runs of the same conversation, whatever its ids, and wherever it runs

function digestsOf(options, places) {
  const digest = (value) => createHash('sha256').update(masked(JSON.stringify(value ?? null), places)).digest('hex').slice(0, 16)
  return {
    tools: digest((options.tools ?? []).map(({ name, description, parameters }) => [name, description, parameters])),
    messages: (options.messages ?? []).map((message) => [
      String(message.role),
      digest([message.content, message.toolCallId, message.isError]),
      ...(typeof message.toolCallId === 'string' ? [message.toolCallId.slice(0, 256)] : []),
    ]),
  }
}

function masked(text, places) {
  for (const [place, mark] of places) text = text.replaceAll(JSON.stringify(place).slice(1, -1), mark)
  return text
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gu, '<id>')
    .replace(/\b([a-z]+)-[0-9a-f]{16}\b/gu, '$1-<id>')
    .replace(/<tmp>[^\s"'\\)\]]*/gu, '<tmp>')
}
