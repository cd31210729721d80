import { outputsContract } from "../contract/outputs.contract.ts";
import { runIndexContract } from "../contract/run-index.contract.ts";
import { runStoreContract, type StoreUnderTest } from "../contract/run-store.contract.ts";
import { sessionsContract } from "../contract/sessions.contract.ts";
import { setUpShards } from "./setup.ts";

async function start(): Promise<StoreUnderTest> {
  const shards = setUpShards();
  return { store: shards.open().store, close: shards.close };
}

runStoreContract("3 shards", start);
runIndexContract("3 shards", start);
sessionsContract("3 shards", start);
outputsContract("3 shards", start);
