package servers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// The methods of AMQP 0-9-1's connection class (10) that a handshake is made of.
const (
	connStart   = 10
	connStartOk = 11
	connTune    = 30
	connTuneOk  = 31
	connOpen    = 40
	connOpenOk  = 41
	connClose   = 50
	connCloseOk = 51
)

// shakeHands opens and closes an AMQP connection as guest. RabbitMQ opens its
// listener when it has recovered its queues and can be used, and this is the
// proof that it does answer, down to its user and virtual host. The broker must
// present itself with a cluster name that has the given beginning, which it takes
// from its node's name; else the error is errStranger.
func shakeHands(ctx context.Context, port int, clusterName string) error {
	conn, err := dial(ctx, port)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	h := handshake{conn: conn, in: bufio.NewReader(conn)}
	if _, err := conn.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return fmt.Errorf("send the protocol header: %w", err)
	}
	properties, err := h.receive(connStart)
	if err != nil {
		return err
	}
	if !bytes.Contains(properties, []byte(clusterName)) {
		return errStranger
	}
	// Client properties (none), mechanism, response, locale.
	startOk := binary.BigEndian.AppendUint32(nil, 0)
	startOk = appendShort(startOk, "PLAIN")
	startOk = appendLong(startOk, "\x00guest\x00guest")
	startOk = appendShort(startOk, "en_US")
	if err := h.send(connStartOk, startOk); err != nil {
		return err
	}
	tune, err := h.receive(connTune)
	if err != nil {
		return err
	}
	// Its own limits are agreed to: channels, frame size, heartbeat.
	if err := h.send(connTuneOk, tune); err != nil {
		return err
	}
	// Virtual host, and two fields of the past.
	if err := h.send(connOpen, append(appendShort(nil, "/"), 0, 0)); err != nil {
		return err
	}
	if _, err := h.receive(connOpenOk); err != nil {
		return err
	}
	// Code 200, no text, no method to blame.
	bye := append(binary.BigEndian.AppendUint16(nil, 200), 0, 0, 0, 0, 0)
	if err := h.send(connClose, bye); err != nil {
		return err
	}
	_, err = h.receive(connCloseOk)
	return err
}

// handshake is the connection's class of methods on channel 0. A frame is a type,
// a channel, a size, so many bytes, and the end mark.
type handshake struct {
	conn net.Conn
	in   *bufio.Reader
}

const (
	methodFrame     = 1
	frameEnd        = 0xCE
	connectionClass = 10
)

func (h handshake) send(method uint16, arguments []byte) error {
	frame := []byte{methodFrame, 0, 0}
	frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(arguments)))
	frame = binary.BigEndian.AppendUint16(frame, connectionClass)
	frame = binary.BigEndian.AppendUint16(frame, method)
	frame = append(append(frame, arguments...), frameEnd)
	if _, err := h.conn.Write(frame); err != nil {
		return fmt.Errorf("send connection method %d: %w", method, err)
	}
	return nil
}

// receive returns the arguments of the method that is expected next.
func (h handshake) receive(method uint16) ([]byte, error) {
	var head [7]byte
	if _, err := io.ReadFull(h.in, head[:]); err != nil {
		return nil, fmt.Errorf("await connection method %d: %w", method, err)
	}
	size := binary.BigEndian.Uint32(head[3:])
	// Before the size is agreed on a frame has at most 4,096 bytes; what claims
	// more is no AMQP.
	if head[0] != methodFrame || size < 4 || size > 1<<16 {
		return nil, fmt.Errorf("await connection method %d: unknown answer %q", method, head)
	}
	body := make([]byte, size+1)
	if _, err := io.ReadFull(h.in, body); err != nil {
		return nil, fmt.Errorf("await connection method %d: %w", method, err)
	}
	class, got := binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:])
	if class != connectionClass || got != method || body[size] != frameEnd {
		return nil, fmt.Errorf("await connection method %d: got class %d method %d", method, class, got)
	}
	return body[4:size], nil
}

func appendShort(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }

func appendLong(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
