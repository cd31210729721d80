import { Hono } from "hono";
import { refuseTenants, requireScope } from "../access/access.ts";
import type { HttpApp, HttpDeps, HttpEnv } from "../types.ts";
import * as actions from "./actions.ts";
import { approvalsTitle, renderApprovals } from "./approvals-view.ts";
import { serveAsset } from "./assets.ts";
import { renderFleet } from "./fleet-view.ts";
import { createGoals } from "./goals.ts";
import { createInbox } from "./inbox.ts";
import * as pausing from "./pause-actions.ts";
import { noticeOf, type PageParts, respond } from "./respond.ts";
import { runPage, turnPage } from "./run-page.ts";
import { runsPage } from "./runs-page.ts";
import { sessionPage, sessionText } from "./session-page.ts";
import { turnText } from "./text-page.ts";

/**
 * The operators' pages: made on the server, so that all of them can be read, and every form be sent, without scripts.
 * What is shown of content has gone through the redactor.
 */
export function createPages(deps: HttpDeps): HttpApp {
  const app = new Hono<HttpEnv>();
  const parts: PageParts = { deps, inbox: createInbox() };
  const goals = createGoals(deps);
  app.get("/assets/:file", (context) => serveAsset(context) ?? context.notFound());
  addReading(app, parts, goals);
  addActions(app);
  addFleetActions(app, deps);
  addBoard(app, deps);
  return app;
}

function addReading(app: HttpApp, parts: PageParts, goals: ReturnType<typeof createGoals>): void {
  const { deps, inbox } = parts;
  const read = requireScope("read");
  for (const path of ["/ui", "/ui/", "/ui/runs"]) app.get(path, (context) => context.redirect("/", 302));
  app.get("/", read, (context) => runsPage(parts, goals, context));
  app.get("/ui/runs/:id", read, (context) => runPage(parts, goals, context));
  app.get("/ui/runs/:id/turns/:turn{[0-9]{1,9}}", read, (context) => turnPage(parts, context));
  app.get("/ui/runs/:id/turns/:turn{[0-9]{1,9}}/text", read, (context) => turnText(deps, context));
  app.get("/ui/sessions/:id", read, (context) => sessionPage(parts, context));
  app.get("/ui/sessions/:id/text", read, (context) => sessionText(parts, context));
  app.get("/ui/approvals", read, async (context) => {
    const { asks, more } = await inbox.read(context.var.runs);
    const { caller } = context.var;
    const main = renderApprovals({ asks, more, caller, notice: noticeOf(context), now: deps.now() });
    return respond(parts, context, { title: approvalsTitle(asks.length), nav: "approvals", main });
  });
  app.get("/ui/fleet", requireScope("admin"), refuseTenants, async (context) => {
    const acting = { caller: context.var.caller, notice: noticeOf(context) };
    const main = renderFleet(await deps.fleet.read(), deps.board !== undefined, acting);
    return respond(parts, context, { title: "Fleet", nav: "fleet", main });
  });
}

function addActions(app: HttpApp): void {
  const decide = requireScope("decide");
  app.post("/ui/runs/:id/calls/:callId/approve", decide, actions.handle(actions.approve));
  app.post("/ui/runs/:id/calls/:callId/deny", decide, actions.handle(actions.deny));
  app.post("/ui/runs/:id/calls/:callId/answer", decide, actions.handle(actions.answer));
  app.post("/ui/runs/:id/cancel", decide, actions.handle(actions.cancel));
  app.post("/ui/runs/:id/pause", decide, actions.handle(pausing.pause));
  app.post("/ui/runs/:id/resume", decide, actions.handle(pausing.resume));
  app.post("/ui/runs/:id/retry", decide, actions.handle(actions.retry));
  app.post("/ui/runs/:id/send", requireScope("start"), actions.handle(actions.send));
  app.post("/ui/runs/:id/delete", requireScope("admin"), actions.handle(actions.remove));
}

function addFleetActions(app: HttpApp, deps: HttpDeps): void {
  const admin = requireScope("admin");
  app.post("/ui/fleet/pause", admin, refuseTenants, actions.handle(pausing.pauseFleet(deps)));
  app.post("/ui/fleet/resume", admin, refuseTenants, actions.handle(pausing.resumeFleet(deps)));
}

/** The raw queues' pages look after themselves. */
function addBoard(app: HttpApp, { board }: HttpDeps): void {
  if (!board) return;
  const admin = requireScope("admin");
  for (const path of ["/ui/queues", "/ui/queues/*"]) {
    app.get(path, admin, refuseTenants, (context) => board(context.req.raw));
  }
}
