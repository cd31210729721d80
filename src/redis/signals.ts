import { DroverError } from "../core/errors.ts";
import type { Logger, Signals } from "../ports.ts";
import {
  connect,
  createDampedWarning,
  type DampedWarning,
  type RedisConnection,
  type RedisTarget,
} from "./connection.ts";
import type { Keys } from "./keys.ts";
import { redisErrorCode } from "./redis-error.ts";

export type RedisSignalsOptions = {
  /** Where the one connection that holds all subscriptions of the process goes; it is opened by the first listener. */
  target: RedisTarget;
  /** Publishes announcements. */
  connection: RedisConnection;
  keys: Keys;
  logger?: Logger | undefined;
  /** How that connection is shown in CLIENT LIST; default `drover-subscriber`. */
  name?: string | undefined;
};

export type RedisSignals = Signals & {
  /** Resolves when announcements made from now on are heard. */
  listening(): Promise<void>;
  /** Drops all subscriptions and closes their connection; the other one is the caller's. */
  close(): Promise<void>;
};

type Listener = (payload: string | null) => void;

/**
 * Signals over Redis's publish and subscribe. A channel is subscribed to while somebody listens to it. After a lost
 * connection all are subscribed to again, and then every listener is called: it may have missed something.
 */
export function createRedisSignals(options: RedisSignalsOptions): RedisSignals {
  const { connection, keys } = options;
  const channels = createChannels(options);

  async function listen(channel: string, listener: () => void): Promise<() => void> {
    const { heard, off } = channels.add(channel, () => listener());
    try {
      await heard;
    } catch (error) {
      off();
      throw error;
    }
    return off;
  }

  return {
    onRun: (runId, listener) => listen(keys.run(runId).channel, listener),
    onEnd: (runId, listener) => listen(keys.run(runId).ended, listener),
    async announce(runId) {
      await connection.use((client) => client.publish(keys.control, runId));
    },
    onAnnounced(listener) {
      const { heard, off } = channels.add(keys.control, listener);
      // What was announced before the subscription stood was missed. If it fails, the next connection brings it.
      heard.then(
        () => listener(null),
        () => {},
      );
      return off;
    },
    isHearing: () => channels.isStanding(keys.control),
    listening: () => channels.standing(keys.control),
    close: () => channels.close(),
  };
}

type Channels = {
  /** `heard` settles with the subscription. */
  add(channel: string, listener: Listener): { heard: Promise<void>; off: () => void };
  standing(channel: string): Promise<void>;
  isStanding(channel: string): boolean;
  close(): Promise<void>;
};

/** `pending` until the first subscription stands or has failed. */
type Channel = { listeners: Set<Listener>; standing: Promise<void>; pending: boolean };

function createChannels({ target, logger, name: connectionName = "drover-subscriber" }: RedisSignalsOptions): Channels {
  const channels = new Map<string, Channel>();
  const call = createCaller(channels, createDampedWarning(logger));
  let subscriber: RedisConnection | undefined;
  let closed = false;

  /** The connection was opened, or came back: nothing is subscribed to on it. */
  async function subscribeAll({ client }: RedisConnection): Promise<void> {
    const names = [...channels].filter(([, channel]) => !channel.pending).map(([name]) => name);
    if (names.length === 0) return;
    await client.subscribe(...names);
    for (const name of names) {
      const channel = channels.get(name);
      if (channel) channel.standing = Promise.resolve();
      call(name, null);
    }
  }

  function open(): RedisConnection {
    const connection = connect(target, { role: "subscriber", logger, name: connectionName });
    connection.client.on("message", call);
    connection.client.on("ready", () => {
      subscribeAll(connection).catch(() => {}); // Lost again; the next connection tries again.
    });
    return connection;
  }

  async function subscribe(name: string): Promise<void> {
    if (closed) throw new DroverError("stopped", "These signals were closed.");
    subscriber ??= open();
    await subscriber.use((client) => client.subscribe(name));
    if (!channels.has(name)) unsubscribe(name);
  }

  function unsubscribe(name: string): void {
    if (subscriber?.client.status !== "ready") return; // A lost connection forgets it anyway.
    subscriber.client.unsubscribe(name).catch(() => {});
  }

  return {
    add: (name, listener) => addListener(channels, { subscribe, unsubscribe }, name, listener),
    standing: async (name) => channels.get(name)?.standing,
    isStanding: (name) => subscriber?.client.status === "ready" && channels.get(name)?.pending === false,
    async close() {
      closed = true;
      channels.clear();
      await subscriber?.close();
    },
  };
}

type Wire = { subscribe(name: string): Promise<void>; unsubscribe(name: string): void };

/** The first listener of a channel subscribes to it, the last one that goes unsubscribes. */
function addListener(
  channels: Map<string, Channel>,
  wire: Wire,
  name: string,
  listener: Listener,
): ReturnType<Channels["add"]> {
  const own: Listener = (payload) => listener(payload);
  const channel = channels.get(name) ?? openChannel(channels, wire, name);
  const { listeners, standing } = channel;
  listeners.add(own);
  return {
    heard: standing,
    off() {
      if (!listeners.delete(own) || listeners.size > 0 || channels.get(name)?.listeners !== listeners) return;
      channels.delete(name);
      wire.unsubscribe(name);
    },
  };
}

function openChannel(channels: Map<string, Channel>, wire: Wire, name: string): Channel {
  const channel: Channel = { listeners: new Set(), standing: Promise.resolve(), pending: true };
  channels.set(name, channel);
  const settled = (): void => {
    channel.pending = false;
  };
  channel.standing = wire.subscribe(name);
  channel.standing.then(settled, settled); // A failure is told by `heard`.
  return channel;
}

/** Calls a channel's listeners; one that throws disturbs no other. */
function createCaller(
  channels: Map<string, Channel>,
  warn: DampedWarning,
): (name: string, payload: string | null) => void {
  return (name, payload) => {
    for (const listener of channels.get(name)?.listeners ?? []) {
      try {
        listener(payload);
      } catch (error) {
        warn("listener", { code: redisErrorCode(error) }, "a listener to signals threw");
      }
    }
  };
}
