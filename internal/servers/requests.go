package servers

// request is one line from the owner to the holder, see the package's text.
type request struct {
	Number int      `json:"number"`
	Do     verb     `json:"do"`
	Server Server   `json:"server,omitempty"`
	Open   *opening `json:"open,omitempty"`
}

type verb string

const (
	doOpen    verb = "open"
	doStop    verb = "stop"
	doKill    verb = "kill"
	doStart   verb = "start"
	doSuspend verb = "suspend"
	doResume  verb = "resume"
	doDetach  verb = "detach"
)

// opening is what a pair is to be. A port that is 0 is chosen by the holder.
type opening struct {
	Dir       string   `json:"dir"`
	Binaries  Binaries `json:"binaries"`
	AMQPPort  int      `json:"amqp_port"`
	RedisPort int      `json:"redis_port"`

	RabbitNodes  int  `json:"rabbit_nodes"`
	RedisCluster bool `json:"redis_cluster"`
}

// answer is one line from the holder to the owner: the pair after the request.
type answer struct {
	Number int    `json:"number"`
	Info   Info   `json:"info"`
	Error  string `json:"error,omitempty"`
	Taken  bool   `json:"taken,omitempty"` // the error is ErrPortTaken
}

// refusal is an error that came over the line: its text, and what it is.
type refusal struct {
	text string
	kind error
}

func (r refusal) Error() string { return r.text }
func (r refusal) Unwrap() error { return r.kind }
