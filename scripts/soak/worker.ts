// A worker of the soak; scripts/soak.ts starts and kills it.
import { readWorkerOptions, runChaosWorker } from "../../src/chaos/worker.ts";
import { agents, scriptsOf } from "./agents.ts";

await runChaosWorker(readWorkerOptions(), { agents, scriptsOf, isReal: () => true });
