import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { HttpContext } from "../types.ts";

type Asset = { name: string; path: string; type: string; body: Uint8Array<ArrayBuffer> };

function load(name: string, type: string, imported: Asset[] = []): Asset {
  let body = readFileSync(new URL(`./assets/${name}`, import.meta.url));
  // Modules name each other by the paths that they are served at.
  for (const { name: from, path } of imported) {
    body = Buffer.from(body.toString("utf8").replaceAll(`"./${from}"`, JSON.stringify(path)));
  }
  const hash = createHash("sha256").update(body).digest("hex").slice(0, 12);
  const [stem, extension] = name.split(".");
  return { name, path: `/assets/${stem}-${hash}.${extension}`, type, body: new Uint8Array(body) };
}

const script = "text/javascript; charset=utf-8";
const morph = load("morph.js", script);
const ages = load("ages.js", script);
const page = load("page.js", script, [ages, morph]);
const run = load("run.js", script, [page]);
const all = {
  style: load("drover.css", "text/css; charset=utf-8"),
  script: load("drover.js", script, [page, run]),
  icon: load("drover.svg", "image/svg+xml"),
  ages,
  morph,
  page,
  run,
};

/** Where each file is served; the path changes with the content. None of them needs a sign-in. */
export const assets: Record<"style" | "script" | "icon", string> = {
  style: all.style.path,
  script: all.script.path,
  icon: all.icon.path,
};

/** A file of the pages; undefined if there is none at that path. */
export function serveAsset(context: HttpContext): Response | undefined {
  const asset = Object.values(all).find(({ path }) => path === context.req.path);
  if (!asset) return undefined;
  return context.body(asset.body, 200, {
    "content-type": asset.type,
    "cache-control": "public, max-age=31536000, immutable",
  });
}
