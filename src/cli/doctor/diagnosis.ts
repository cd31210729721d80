/** One thing the doctor looked at. `detail` says what was found and, unless it is ok, what to change. */
export type Diagnosis = { check: string; state: "ok" | "warning" | "error"; detail: string };
