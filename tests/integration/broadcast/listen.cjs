// Follows one private channel as a browser would, and says what it sees as lines of JSON.
// It asks on standard output whether it may, and is answered on standard input.
const [modules, port, key, channelName] = process.argv.slice(2);
const Pusher = require(`${modules}/pusher-js`);
const readline = require("node:readline");

const say = (said) => process.stdout.write(JSON.stringify(said) + "\n");
const answers = readline.createInterface({ input: process.stdin });

const client = new Pusher(key, {
  wsHost: "127.0.0.1",
  wsPort: Number(port),
  forceTLS: false,
  enabledTransports: ["ws"],
  cluster: "",
  channelAuthorization: {
    customHandler: ({ socketId, channelName: channel }, callback) => {
      answers.once("line", (line) => {
        const auth = JSON.parse(line);
        callback(auth === null ? new Error("forbidden") : null, auth);
      });
      say({ asks: { socketId, channel } });
    },
  },
});
const channel = client.subscribe(channelName);
channel.bind("pusher:subscription_succeeded", () => say({ follows: channelName }));
channel.bind("pusher:subscription_error", (error) => say({ refused: error.type || "error" }));
channel.bind("instructor.agent.event", (message) => say({ told: message }));
client.connection.bind("error", (error) => say({ error }));
