import { fileURLToPath } from "node:url";
import { defineConfig, type ViteUserConfig } from "vitest/config";

// Processes that tests start read the same sources hundreds of times: compiled once, each starts in half the time.
const compiled = fileURLToPath(new URL("node_modules/.cache/drover-tests", import.meta.url));

// What is promised within a time is tried alone: two files at once would disturb each other's clocks.
const timed = ["cancel", "kills", "limits", "pages-speed", "pickup", "zombie"].map(
  (name) => `test/e2e/${name}.e2e.test.ts`,
);

const config: ViteUserConfig = defineConfig({
  test: {
    globalSetup: ["test/support/redis-global.ts"],
    env: { NODE_COMPILE_CACHE: compiled },
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: ["test/e2e/**", "test/chaos/**"],
          setupFiles: ["test/support/no-console.ts"],
          // By default one fewer than there are cores; most of these tests wait for a process or for Redis.
          maxWorkers: 3,
          testTimeout: 60_000,
          hookTimeout: 20_000,
        },
      },
      {
        extends: true,
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.e2e.test.ts"],
          setupFiles: ["test/support/no-console.ts"],
          exclude: timed,
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
          testTimeout: 120_000,
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: "chaos",
          include: ["test/chaos/**/*.chaos.test.ts"],
          setupFiles: ["test/support/no-console.ts"],
          maxWorkers: 3,
          sequence: { groupOrder: 3 },
          testTimeout: process.env.DROVER_CHAOS === "long" ? 600_000 : 120_000,
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: "timed",
          include: timed,
          setupFiles: ["test/support/no-console.ts"],
          fileParallelism: false,
          sequence: { groupOrder: 2 },
          testTimeout: 120_000,
          hookTimeout: 60_000,
        },
      },
    ],
    coverage: {
      provider: "v8",
      include: ["src/core/**"],
      reporter: ["text-summary", "text"],
      // Only a pure core can honestly reach this; no number is asked of anything else.
      thresholds: { branches: 100 },
    },
  },
});

export default config;
