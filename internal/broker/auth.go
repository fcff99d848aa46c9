package broker

import amqp "github.com/rabbitmq/amqp091-go"

// plainAuth is a user and a password, and asks the broker to say when it does not
// take them. Without that RabbitMQ is silent for three seconds and hangs up, which
// can't be told from a broker that died; the client library does not ask. It sets
// the capabilities itself, into the properties that we gave it, and calls Response
// after that and before it writes them: so they are completed there.
type plainAuth struct {
	*amqp.PlainAuth
	properties amqp.Table
}

// Response implements [amqp.Authentication].
func (a plainAuth) Response() string {
	if capabilities, ok := a.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return a.PlainAuth.Response()
}

// authentication returns how to log in, nil for the mechanisms that the URL names
// itself.
func authentication(url string, properties amqp.Table) []amqp.Authentication {
	u, err := amqp.ParseURI(url)
	if err != nil || len(u.AuthMechanism) > 0 {
		return nil
	}
	return []amqp.Authentication{plainAuth{&amqp.PlainAuth{Username: u.Username, Password: u.Password}, properties}}
}
