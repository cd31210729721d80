import { defineConfig, type ViteUserConfig } from "vitest/config";

const config: ViteUserConfig = defineConfig({
  test: {
    globalSetup: ["test/support/redis-global.ts"],
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: ["test/e2e/**"],
          setupFiles: ["test/support/no-console.ts"],
          testTimeout: 20_000,
          hookTimeout: 20_000,
        },
      },
      {
        extends: true,
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.e2e.test.ts"],
          setupFiles: ["test/support/no-console.ts"],
          // Real processes are started, killed and timed: two files at once would disturb each other's clocks.
          fileParallelism: false,
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
