import { DroverError } from "../core/errors.ts";

const untrusted =
  "its certificate is signed by nobody known here; add ?ca=/path/ca.pem to the URL, with the certificate of who signed it";

/** What is wrong between two that speak TLS. Trying again does not help. */
const tlsAdvice: Record<string, string> = {
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  ERR_TLS_CERT_ALTNAME_INVALID:
    "its certificate is for another name; use that one in the URL, or add ?servername=NAME to it",
  CERT_HAS_EXPIRED: "its certificate has expired; renew it",
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    "it wants a certificate of the client; add ?cert=/path/client.pem&key=/path/client.key to the URL",
};

/** Codes for which waiting longer is of no use. */
export const permanentCodes: ReadonlySet<string> = new Set([
  "NOAUTH",
  "WRONGPASS",
  "NOPERM",
  "SENTINELAUTH",
  ...Object.keys(tlsAdvice),
]);

/** What to do about each class of refusal or loss. Keys are reply codes of Redis and error codes of sockets. */
const advice: Record<string, string> = {
  READONLY: "it is a replica and refuses writes; point the URL at the primary, or wait for the failover to end",
  OOM: "its memory is full; raise maxmemory or delete old runs",
  LOADING: "it is still loading its data; wait for it",
  NOAUTH: "it wants a password; put it into the URL: redis://:PASSWORD@HOST:PORT",
  WRONGPASS: "it refused the user name or password; correct them in the URL",
  NOPERM: "the user may not run a command that is needed; extend its ACL",
  MISCONF: "it cannot save to disk and refuses writes; look at its log and its disk",
  MASTERDOWN: "its link to the primary is down; wait, or point the URL at the primary",
  NOREPLICAS: "too few replicas are connected for a write; bring them back or lower min-replicas-to-write",
  TRYAGAIN: "a part of its keys is being moved to another node; wait until that is done",
  CLUSTERDOWN: "the cluster is down, or a part of it without a primary; bring its nodes back",
  MOVED:
    "it is a node of a cluster and has only a part of the keys; write the URL like redis+cluster://HOST:PORT,HOST:PORT",
  CROSSSLOT: "keys fall into several slots of the cluster; set a prefix with a hash tag, such as {drover}",
  BUSY: "a script of another client blocks it; wait, or end it with SCRIPT KILL",
  NOSENTINEL:
    "no sentinel tells where the group's primary is; start them, or correct their addresses and the group's name in the URL",
  SENTINELAUTH:
    "the sentinels refused the user name or password; put them into the URL: ?sentinelUsername=NAME&sentinelPassword=PASSWORD",
  ECONNREFUSED: "nothing listens there; start Redis or correct the URL",
  ENOTFOUND: "the host name is unknown; correct the URL",
  EAI_AGAIN: "the host name could not be looked up; check DNS or correct the URL",
  ENOENT: "the socket file is not there; start Redis or correct the path",
  EACCES: "the socket file may not be opened; correct its permissions",
  ETIMEDOUT: "it does not answer; check the network, or correct the URL (rediss:// only for a port that speaks TLS)",
  CLOSED: "the connection to it was lost; check that it is up",
  ECONNRESET: "the connection was cut; check that Redis is up, and whether it wants TLS (rediss://)",
  ...tlsAdvice,
};

const refusal = /^([A-Z]{2,}) /;
/** What servers say of a command that is larger than they take. */
const oversize = /Protocol error: invalid bulk length|max request size exceeded|exceeds maximum allowed size/;
/** What Redis 7 says of a command inside a script that the user's ACL forbids: without the code it has outside of one. */
const deniedInScript = /user executing the script can't|ACL failure in script/;

/** A short code for a failure of Redis or of the way there. Never holds an argument of the command. */
export function redisErrorCode(error: unknown): string {
  if (!(error instanceof Error)) return "UNKNOWN";
  // A transaction that was not executed: what one of its commands was refused for is the reason.
  const { previousErrors } = error as { previousErrors?: unknown };
  if (Array.isArray(previousErrors) && previousErrors.length > 0) return redisErrorCode(previousErrors[0]);
  // What a cluster's client gave up on, and what the last node that it asked had said.
  const { lastNodeError } = error as { lastNodeError?: unknown };
  if (lastNodeError) return redisErrorCode(lastNodeError);
  const [, last] = /^Too many Cluster redirections\. Last error: (?:\w*Error: )?(.*)/s.exec(error.message) ?? [];
  return replyCode(last ?? error.message) ?? clientCode(error);
}

/** Code of a command that is larger than the server takes. */
export const tooLarge = "TOOLARGE";

/** The code that Redis's answer begins with. */
function replyCode(message: string): string | undefined {
  const reply = refusal.exec(message)?.[1];
  if (reply !== "ERR") return reply;
  if (oversize.test(message)) return tooLarge;
  if (deniedInScript.test(message)) return "NOPERM";
  // A script that failed may put its own words before the code of the command inside it.
  return /\b(READONLY|OOM|MISCONF|WRONGTYPE|NOREPLICAS|NOPERM)\b/.exec(message)?.[1] ?? "ERR";
}

/** A code for what went wrong on our side of the connection. */
function clientCode(error: Error): string {
  const { code } = error as { code?: unknown };
  if (typeof code === "string") return code;
  if (error.message.startsWith("All sentinels are unreachable")) {
    return /\b(NOAUTH|WRONGPASS|NOPERM)\b/.test(error.message) ? "SENTINELAUTH" : "NOSENTINEL";
  }
  if (/timed out|ETIMEDOUT/.test(error.message)) return "ETIMEDOUT";
  const lost =
    /Connection is closed|isn't writeable|aborted due to connection|Cluster isn't ready|startup nodes|Socket timeout/i.test(
      error.message,
    );
  return lost || error.name === "MaxRetriesPerRequestError" ? "CLOSED" : "UNKNOWN";
}

/**
 * A failure of Redis as ours. Holds a code and our own sentence: what ioredis attaches to an error (the command and its
 * arguments, whole scripts and messages among them) stays behind.
 */
export function toRedisError(error: unknown, address: string): DroverError {
  if (error instanceof DroverError) return error;
  const code = redisErrorCode(error);
  if (code === "WRONGTYPE") {
    return new DroverError(
      "invalid",
      `A key of Drover's at ${address} holds a value of another type (WRONGTYPE): another program writes under the same ` +
        "prefix. Give Drover a prefix of its own (DROVER_PREFIX); a run that it spoiled goes by: drover delete ID",
    );
  }
  if (code === tooLarge) {
    return new DroverError(
      "too_large",
      `Redis at ${address} refuses a write for its size, or the connection was cut each time it was sent: raise its limit ` +
        "(proto-max-bulk-len, client-query-buffer-limit, or that of whoever hosts it), look at what lies on the way, or lower " +
        "maxMessageBytes.",
    );
  }
  const what = advice[code] ?? "check that it is up and that the URL is right";
  return new DroverError("queue_unavailable", `Redis at ${address} cannot be used (${code}): ${what}.`);
}

const refusals = new Set(["ERR", "NOPERM"]);

/** Whether a host does not let a command be used, as managed ones do with INFO and CONFIG. */
export function isRefusal(error: unknown): boolean {
  return refusals.has(redisErrorCode(error));
}

/** Whether the server has no text of the script whose hash it was given. It has done nothing then. */
export function isUnknownScript(error: unknown): boolean {
  return redisErrorCode(error) === "NOSCRIPT";
}
