import { OpenAPIHono } from "@hono/zod-openapi";
import type { HttpEnv } from "../types.ts";
import type { Api } from "./endpoint.ts";

/** The document of several parts of the API (OpenAPI 3.1). */
export function makeDocument(parts: readonly Api[]): object {
  const whole: Api = new OpenAPIHono<HttpEnv>();
  for (const part of parts) whole.route("/", part);
  whole.openAPIRegistry.registerComponent("securitySchemes", "apiKey", {
    type: "http",
    scheme: "bearer",
    description: "A key, as `drover keys` makes one: `Authorization: Bearer <key>`.",
  });
  whole.openAPIRegistry.registerComponent("securitySchemes", "session", {
    type: "apiKey",
    in: "cookie",
    name: "drover",
    description:
      "Somebody signed in to the pages (over HTTPS the name is `__Host-drover`). Requests that change something also bring the CSRF token.",
  });
  return whole.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "Drover",
      version: "1",
      description: "Durable agent runs: start them, watch them, decide on their calls.",
    },
  });
}
