import type { Logger, Signals } from "../ports.ts";
import { createDampedWarning, type RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { redisErrorCode } from "./redis-error.ts";

export type RedisSignalsOptions = {
  /** Publishes announcements. */
  connection: RedisConnection;
  /** The one connection of the process that holds all subscriptions; role `subscriber`, used for nothing else. */
  subscriber: RedisConnection;
  keys: Keys;
  logger?: Logger | undefined;
};

export type RedisSignals = Signals & {
  /** Resolves when announcements made from now on are heard. */
  listening(): Promise<void>;
  /** Drops all subscriptions. The connections are the caller's to close. */
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

  return {
    async onRun(runId, listener) {
      const { heard, off } = channels.add(keys.run(runId).channel, () => listener());
      try {
        await heard;
      } catch (error) {
        off();
        throw error;
      }
      return off;
    },
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
    listening: () => channels.standing(keys.control),
    close: () => channels.close(),
  };
}

type Channels = {
  /** `heard` settles with the subscription. */
  add(channel: string, listener: Listener): { heard: Promise<void>; off: () => void };
  standing(channel: string): Promise<void>;
  close(): Promise<void>;
};

type Channel = { listeners: Set<Listener>; standing: Promise<void> };

function createChannels({ subscriber, logger }: RedisSignalsOptions): Channels {
  const channels = new Map<string, Channel>();
  const { client } = subscriber;
  const call = createCaller(channels, logger);

  async function subscribe(name: string): Promise<void> {
    await subscriber.use((redis) => redis.subscribe(name));
    if (!channels.has(name)) unsubscribe(name);
  }

  function unsubscribe(name: string): void {
    if (client.status === "ready") client.unsubscribe(name).catch(() => {}); // A lost connection forgets it too.
  }

  /** The connection is new: nothing is subscribed to on it. */
  async function subscribeAll(): Promise<void> {
    const names = [...channels.keys()];
    if (names.length === 0) return;
    await client.subscribe(...names);
    for (const name of names) {
      const channel = channels.get(name);
      if (channel) channel.standing = Promise.resolve();
      call(name, null);
    }
  }
  const onReady = (): void => {
    subscribeAll().catch(() => {}); // Lost again; the next connection tries again.
  };
  client.on("message", call);
  client.on("ready", onReady);

  return {
    add(name, listener) {
      const own: Listener = (payload) => listener(payload);
      let channel = channels.get(name);
      if (!channel) {
        channel = { listeners: new Set(), standing: Promise.resolve() };
        channels.set(name, channel);
        channel.standing = subscribe(name);
        channel.standing.catch(() => {}); // Told by `heard`.
      }
      const { listeners, standing } = channel;
      listeners.add(own);
      return {
        heard: standing,
        off() {
          if (!listeners.delete(own) || listeners.size > 0) return;
          channels.delete(name);
          unsubscribe(name);
        },
      };
    },
    standing: async (name) => channels.get(name)?.standing,
    async close() {
      client.off("message", call);
      client.off("ready", onReady);
      channels.clear();
      if (client.status === "ready") await client.unsubscribe().catch(() => {});
    },
  };
}

/** Calls a channel's listeners; one that throws disturbs no other. */
function createCaller(
  channels: Map<string, Channel>,
  logger: Logger | undefined,
): (name: string, payload: string | null) => void {
  const warn = createDampedWarning(logger);
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
