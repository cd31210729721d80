import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { type Html, html } from "../pages/html.ts";
import { layout } from "../pages/layout.ts";
import { answerProblem, type Problem } from "../problem.ts";
import type { HttpApp, HttpContext, HttpEnv } from "../types.ts";
import { type AccessParts, foreign, isForm, noteFailure, tooLarge, tooMany, toTrouble } from "./guard.ts";
import { isOwnOrigin, toLocalPath } from "./origin.ts";

const limitForm = bodyLimit({
  maxSize: 8_192,
  onError: (context) => Promise.resolve(answerProblem(context as HttpContext, tooLarge)),
});

/** Signing in to the pages with a key, and out. */
export function createLogin(parts: AccessParts): HttpApp {
  const { sessions, deps } = parts;
  const app: HttpApp = new Hono<HttpEnv>();
  app.get("/login", async (context) => {
    const next = toLocalPath(context.req.query("next"));
    try {
      if (await sessions.read(context)) return context.redirect(next, 303);
    } catch (error) {
      return answerProblem(context, toTrouble(error, deps, context));
    }
    return context.html(loginPage(next));
  });
  app.post("/login", limitForm, (context) => signIn(parts, context));
  // The guard has checked the form's token by now.
  app.post("/logout", async (context) => {
    await sessions.close(context);
    return context.redirect("/login", 303);
  });
  return app;
}

async function signIn({ keyring, sessions, failures, deps }: AccessParts, context: HttpContext): Promise<Response> {
  // Else a stranger's page could sign somebody in with the stranger's key.
  if (!isOwnOrigin(context)) return answerProblem(context, foreign);
  const { address } = context.env;
  if (!isForm(context)) return answerProblem(context, noForm);
  const form = await context.req.parseBody();
  const key = typeof form.key === "string" ? form.key.trim() : "";
  const next = toLocalPath(typeof form.next === "string" ? form.next : undefined);
  const wait = failures.waitOf(address);
  if (wait > 0 && !keyring.isKnownGood(key)) {
    context.header("retry-after", String(wait));
    return context.html(loginPage(next, tooMany(wait).detail), 429);
  }
  if (deps.settings.secureCookies && isPlainHttp(context)) return context.html(loginPage(next, overPlainHttp), 400);
  try {
    const proof = await keyring.prove(key);
    if (proof) {
      await sessions.open(context, proof);
      deps.logger.info({ caller: proof.key.name, keyId: proof.key.id, address }, "signed in to the pages");
      return context.redirect(next, 303);
    }
  } catch (error) {
    return answerProblem(context, toTrouble(error, deps, context));
  }
  noteFailure({ failures, deps }, context);
  return context.html(
    loginPage(next, "This is no key that is good here: it is unknown, was removed, or has expired."),
    401,
  );
}

const noForm: Problem = {
  status: 415,
  code: "invalid",
  detail: "A sign-in is a form: send its fields as application/x-www-form-urlencoded.",
};

const overPlainHttp =
  "The sign-in cookie goes over HTTPS only, and this page came over plain HTTP. Open it by https://, or set DROVER_HTTP_SECURE_COOKIES=false where the server runs.";

/** Browsers say in Origin how they got the page; they keep a Secure cookie over HTTP for this machine alone. */
function isPlainHttp(context: HttpContext): boolean {
  const origin = URL.parse(context.req.header("origin") ?? "");
  return origin?.protocol === "http:" && !/^(?:localhost|127\.[\d.]+|\[::1\])$/.test(origin.hostname);
}

function loginPage(next: string, problem?: string): Html {
  const main = html`<h1>Sign in</h1>
${problem === undefined ? "" : html`<p class="problem" role="alert" id="problem">${problem}</p>`}
<form method="post" action="/login" class="stack">
<input type="hidden" name="next" value="${next}">
<input type="text" autocomplete="username" value="drover" hidden>
<label for="key">API key</label>
<input id="key" name="key" type="password" required autofocus autocomplete="current-password" spellcheck="false" placeholder="drv_..." ${problem === undefined ? "" : html`aria-invalid="true" aria-describedby="problem"`}>
<button>Sign in</button>
</form>
<p class="hint">Whoever runs this server makes a key with <code>drover keys create NAME --scope admin</code>.</p>`;
  return layout({ title: "Sign in", main });
}
