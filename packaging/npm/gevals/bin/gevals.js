#!/usr/bin/env node
// Runs the program from the package for this platform, with the same arguments, streams, signals and exit status.
"use strict";

const { spawn } = require("node:child_process");
const { name, version, optionalDependencies } = require("../package.json");

// Exit status 3, as when gevals could run nothing.
function broken(message) {
    console.error(`error: ${message}`);
    process.exit(3);
}

function program() {
    const platform = `${name}-${process.platform}-${process.arch}`;
    try {
        return require.resolve(`${platform}/bin/gevals`);
    } catch {
        if (platform in optionalDependencies) {
            broken(
                `the package \`${platform}\` with the program is not installed: install without \`--omit=optional\` ` +
                    `and \`--no-optional\`, or add it: npm install ${platform}@${version}`,
            );
        }
        const known = Object.keys(optionalDependencies).map((known) => known.slice(name.length + 1));
        broken(`there is no package for ${process.platform}-${process.arch}, only for ${known.join(", ")}: build it with cargo`);
    }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
// A terminal also sends the signal to the program directly; the program treats two signals within a second as one.
const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
for (const signal of signals) {
    process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => broken(`cannot start the program: ${error.message}`));
child.on("exit", (status, signal) => {
    if (signal === null) {
        process.exit(status);
    }
    signals.forEach((signal) => process.removeAllListeners(signal));
    process.kill(process.pid, signal);
});
