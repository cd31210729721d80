/** The two parts of a play. */
export const chaosParts = ["points", "processes"] as const;

/** What `drover chaos` was called with. */
export type ChaosCommand = {
  seed?: number;
  minutes: number;
  runs: number;
  workers: number;
  agent?: string;
  only?: (typeof chaosParts)[number];
  script?: string;
  schedule?: string;
  realTools?: boolean;
  stubTools?: boolean;
  json?: boolean;
};
