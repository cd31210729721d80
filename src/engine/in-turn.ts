/** Does one piece of work after another for each key, in the order in which they were given; keys do not wait for each other. */
export type InTurn = <T>(key: string, work: () => Promise<T>) => Promise<T>;

export function createInTurn(): InTurn {
  const last = new Map<string, Promise<void>>();
  return (key, work) => {
    const done = last.get(key)?.then(work) ?? work();
    const end = (): void => {
      if (last.get(key) === settled) last.delete(key);
    };
    const settled = done.then(end, end);
    last.set(key, settled);
    return done;
  };
}
