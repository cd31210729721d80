// The package's `drover/server`: HTTP over Redis, in a process of its own or inside an application.

export type { DroverServer, DroverServerOptions, ListenOptions } from "./server/create-server.ts";
export { createDroverServer } from "./server/create-server.ts";
