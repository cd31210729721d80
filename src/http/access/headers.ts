import type { Context, MiddlewareHandler } from "hono";
import { secureHeaders } from "hono/secure-headers";
import type { HttpEnv } from "../types.ts";

const self = "'self'";
const none = "'none'";

/**
 * Headers that tell browsers what they must not do with an answer. A handler that needs another one sets it itself and
 * is not overruled: the raw queues' pages have a content policy of their own, and files that never change may be cached.
 */
export function answerHeaders(secure: boolean): MiddlewareHandler<HttpEnv> {
  const nonce = (context: Context): string => `'nonce-${(context as Context<HttpEnv>).var.nonce}'`;
  const headers = secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: [none],
      scriptSrc: [self, nonce],
      styleSrc: [self, nonce],
      imgSrc: [self, "data:"],
      connectSrc: [self],
      formAction: [self],
      baseUri: [none],
      frameAncestors: [none],
    },
    // With "no-referrer" browsers would also hide the Origin of our own forms.
    referrerPolicy: "same-origin",
    xFrameOptions: "DENY",
    // Only over HTTPS: a name that once promised it could not be reached without any more.
    strictTransportSecurity: secure ? "max-age=31536000" : false,
    permissionsPolicy: { camera: [], microphone: [], geolocation: [], payment: [], usb: [] },
    overwrite: false,
  });
  return async (context, next) => {
    await headers(context, next);
    // Runs hold what people wrote; nothing on the way is to keep it.
    if (!context.res.headers.has("cache-control")) context.res.headers.set("cache-control", "no-store");
  };
}
