// Builds the package into dist/: the compiled sources, whatever lies beside them that is no TypeScript (Lua scripts),
// and the JSON Schema of the queue contract.
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, rmSync } from "node:fs";
import { extname } from "node:path";

rmSync("dist", { recursive: true, force: true });
execFileSync("tsc", ["-p", "tsconfig.build.json"], { stdio: "inherit" });
cpSync("src", "dist", { recursive: true, filter: (path) => extname(path) !== ".ts" });
execFileSync("node", ["scripts/write-schema.ts"], { stdio: "inherit" });
chmodSync("dist/cli/main.js", 0o755);
