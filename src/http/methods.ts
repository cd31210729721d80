import type { HttpApp } from "./types.ts";

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

/** What the address takes, as the header `Allow` names it; empty: nothing is there. */
export function allowedMethods(app: HttpApp, path: string): string[] {
  const taken = methods.filter((method) =>
    // Middleware for all methods is no answer to any.
    app.router.match(method, path)[0].some(([[, route]]) => route.method === method),
  );
  if (taken.length === 0) return [];
  return ["OPTIONS", ...taken.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method]))];
}
