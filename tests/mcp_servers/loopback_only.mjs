// Preloaded by `node --import` into the HTTP modes of the real MCP servers. They listen on all interfaces and have no
// option against it, so every listener is bound to loopback here; port 0 is a free port, and the line on stderr says
// which one it became. They also end with the pipe at their stdin, that is with the test, however that ends.
import dns from "node:dns";
import { Server } from "node:net";

const HOST = "127.0.0.1";
const { listen } = Server.prototype;
const { lookup } = dns;

// A listener with a host has its address only after a look-up; programs that give none ask for it at once.
dns.lookup = (name, ...rest) => {
  if (name !== HOST) return lookup(name, ...rest);
  const done = rest.pop();
  return rest[0]?.all ? done(null, [{ address: HOST, family: 4 }]) : done(null, HOST, 4);
};

Server.prototype.listen = function (port, ...rest) {
  const callbacks = rest.filter((argument) => typeof argument === "function");
  this.once("listening", () => process.stderr.write(`bound ${JSON.stringify(this.address())}\n`));
  return listen.call(this, { port: Number(port), host: HOST }, ...callbacks);
};

process.stdin.on("close", () => process.exit(0)).resume();
