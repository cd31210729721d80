// A collector that takes everything and keeps nothing, in a process of its own: what it costs is not the worker's.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const server = createServer((request, response) => {
  let bytes = 0;
  request.on("data", (piece: Buffer) => {
    bytes += piece.length;
  });
  request.on("end", () => {
    process.send?.({ path: request.url, bytes });
    response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
  });
});
server.listen(0, "127.0.0.1", () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on("disconnect", () => process.exit(0));
