import { Hono } from "hono";
import type { HttpApp, HttpDeps, HttpEnv } from "../types.ts";
import { serveAsset } from "./assets.ts";

/** The operators' pages. */
export function createPages(_deps: HttpDeps): HttpApp {
  const app = new Hono<HttpEnv>();
  app.get("/assets/:file", (context) => serveAsset(context) ?? context.notFound());
  return app;
}
