/** Names that did not come from code: at most so many get a series of their own, in a process. */
const strangersKept = 100;
const other = "_OTHER";

/** Keeps the number of series bounded, whatever callers and servers say. */
export type Known = {
  /** An agent that this process executes. */
  own(agent: string): string;
  /** An agent by the name that a producer gave it, which may be made up. */
  agent(name: string): string;
  error(type: string | undefined): string | undefined;
};

export function createKnown(): Known {
  const own = new Set<string>();
  const agents = createBounded();
  const errors = createBounded();
  return {
    own(agent) {
      own.add(agent);
      return agent;
    },
    agent: (name) => (own.has(name) ? name : agents(name)),
    error: (type) => (type === undefined ? undefined : errors(type)),
  };
}

function createBounded(): (name: string) => string {
  const kept = new Set<string>();
  return (name) => {
    if (name === "") return other;
    if (!kept.has(name) && kept.size >= strangersKept) return other;
    kept.add(name);
    return name;
  };
}
