// What the site's own search finds: the theme's worker, run by node with the site's index.
//
//   node search.js SITE QUESTION...    one line of JSON for each question: the pages, best first
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const [site, ...questions] = process.argv.slice(2);
const directory = path.join(site, "assets/javascripts/workers");
const [worker] = fs.readdirSync(directory).filter((name) => name.endsWith(".js"));
const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"));

let receive;
let answer;
const scope = vm.createContext({
  console,
  addEventListener: (_, listener) => { receive = listener; },
  postMessage: (message) => answer(message),
});
scope.self = scope;
vm.runInContext(fs.readFileSync(path.join(directory, worker), "utf8"), scope);
const send = (data) => new Promise((resolve) => { answer = resolve; receive({ data }); });

(async () => {
  await send({ type: 0, data: { config: index.config, docs: index.docs, options: {} } });
  for (const question of questions) {
    const { data } = await send({ type: 2, data: question });
    console.log(JSON.stringify(data.items.map(([first]) => first.location.split("#")[0])));
  }
})();
