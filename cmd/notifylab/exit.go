package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/servers"
	"notifylab/internal/supervise"
)

// What the program's exit status means.
const (
	exitOK           = 0
	exitFinding      = 1  // not as predicted, or done in part
	exitUsage        = 64 // wrong command, flag or value
	exitUnavailable  = 69 // the surroundings won't do
	exitBug          = 70
	exitInconclusive = 75
	exitInterrupted  = 130 // 128 + SIGINT
	exitTerminated   = 143 // 128 + SIGTERM
	exitHangup       = 129 // 128 + SIGHUP: the terminal is gone
	exitPipe         = 141 // 128 + SIGPIPE: nobody reads our output any more
)

// usageError is about what was typed.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// statusError ends the program with a status. With no text the reason has been
// printed already.
type statusError struct {
	status int
	text   string
}

func (e statusError) Error() string { return e.text }

// unavailableError is about the surroundings: they won't do.
type unavailableError struct{ err error }

func (e unavailableError) Error() string { return e.err.Error() }
func (e unavailableError) Unwrap() error { return e.err }

// hinted adds what to do about an error: lines of a task and its command.
type hinted struct {
	err   error
	hints []string
}

func (e hinted) Error() string { return e.err.Error() }
func (e hinted) Unwrap() error { return e.err }

// helpedBy names what to look at after a usage error, where the help of the command
// that failed does not tell.
func helpedBy(command string, err error) error { return hinted{err, []string{"help: " + command}} }

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ sig os.Signal }

func (e interrupted) Error() string { return "interrupted: " + e.sig.String() }

// errOutputClosed is the cause of a context that ended because nobody reads what
// we print.
var errOutputClosed = errors.New("output closed")

// outputError is what a failed write to standard output ends with.
func outputError(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return errOutputClosed
	}
	return unavailableError{fmt.Errorf("standard output: %w", reasonOf(err))}
}

// errOrphaned is the cause when the supervisor is gone.
var errOrphaned = errors.New("the supervisor is gone")

// exitStatus maps how a command ended to the program's status.
func exitStatus(err error) int {
	var usage usageError
	var status statusError
	var sig interrupted
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return status.status
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errOutputClosed), errors.Is(err, syscall.EPIPE):
		return exitPipe
	case errors.As(err, &sig):
		switch sig.sig {
		case syscall.SIGTERM:
			return exitTerminated
		case syscall.SIGHUP:
			return exitHangup
		}
		return exitInterrupted
	case unavailable(err):
		return exitUnavailable
	case errors.Is(err, supervise.ErrGaveUp):
		return exitFinding
	}
	return exitBug
}

func unavailable(err error) bool {
	var known unavailableError
	var mq *broker.UnreachableError
	var redis *idem.UnreachableError
	var conflict *broker.ConflictError
	var cluster *idem.ClusterError
	var network net.Error
	if errors.As(err, &cluster) || errors.As(err, &known) || errors.As(err, &mq) || errors.As(err, &redis) || errors.As(err, &conflict) || errors.As(err, &network) {
		return true
	}
	for _, condition := range []error{
		broker.ErrAccessRefused, broker.ErrNoVhost, broker.ErrURL, idem.ErrURL, broker.ErrTLS, idem.ErrTLS,
		servers.ErrNotInstalled, servers.ErrPortTaken,
		io.EOF, io.ErrUnexpectedEOF, // a server that hung up
		syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, syscall.EACCES,
	} {
		if errors.Is(err, condition) {
			return true
		}
	}
	return false
}

// because returns why ctx ended if it did and err came of that, else err: what a
// call says whose context was ended tells nothing of the signal behind it.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
