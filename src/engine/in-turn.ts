/** Does one piece of work after another for each key, in the order in which they were given; keys do not wait for each other. */
export type InTurn = <T>(key: string, work: () => Promise<T>) => Promise<T>;

export function createInTurn(): InTurn {
  const last = new Map<string, Promise<void>>();
  return async (key, work) => {
    const done = (last.get(key) ?? Promise.resolve()).then(work);
    const settled = done.then(
      () => {},
      () => {},
    );
    last.set(key, settled);
    try {
      return await done;
    } finally {
      if (last.get(key) === settled) last.delete(key);
    }
  };
}
