package servers

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrNotUp says that there is no pair to take down.
var ErrNotUp = errors.New("no servers are up")

// Up starts a pair that outlives the caller, and records it under the state
// directory. If the recorded one lives, that is returned, with already true,
// whatever its ports are; what is left of one that was killed is cleared away
// first. Errors are those of [Start]; after one nothing is up.
func Up(ctx context.Context, stateDir string, o Options) (i Info, already bool, err error) {
	r, err := lockRecord(ctx, stateDir)
	if err != nil {
		return Info{}, false, err
	}
	defer r.unlock()

	known, found, err := r.read()
	if err != nil {
		return Info{}, false, err
	}
	if found && known.Holder.Alive() {
		return known, true, nil
	}
	if found {
		if _, err := r.clear(known); err != nil {
			return Info{}, false, err
		}
	}
	holder, i, err := open(ctx, o)
	if err != nil {
		return Info{}, false, err
	}
	// In this order a caller that dies in between leaves a record of a pair that
	// ends with it, never a pair without a record.
	err = r.write(i)
	if err == nil {
		_, err = holder.ask(ctx, request{Do: doDetach})
	}
	if err != nil {
		err = fmt.Errorf("let the servers go: %w", err)
		err = errors.Join(err, holder.abandon(i))
		_, clearing := r.clear(i)
		return Info{}, false, errors.Join(err, clearing)
	}
	return i, false, holder.release()
}

// Down ends the pair that [Up] has recorded under the state directory, and
// returns when its servers and their data are gone. Only processes that are
// certainly those of the record are ended. If none is, the error is [ErrNotUp],
// and a record of the past is removed.
func Down(ctx context.Context, stateDir string) error {
	r, err := lockRecord(ctx, stateDir)
	if err != nil {
		return err
	}
	defer r.unlock()

	known, found, err := r.read()
	if err != nil {
		return err
	}
	if !found {
		return ErrNotUp
	}
	ended := known.Holder.Alive()
	if err := known.Holder.signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("take the servers down: %w", err)
	}
	patience, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	// The holder does it all. One that doesn't is killed with the rest.
	waiting := awaitGone(patience, known.Holder)
	if waiting != nil && ctx.Err() != nil {
		return fmt.Errorf("take the servers down: %w", waiting)
	}
	leftovers, err := r.clear(known)
	if err != nil {
		return fmt.Errorf("take the servers down: %w", err)
	}
	if !ended && !leftovers {
		return ErrNotUp
	}
	return nil
}

// Running returns the pair that is up by the record under the state directory, or
// [ErrNotUp]. It changes nothing and waits for nobody.
func Running(stateDir string) (Info, error) {
	known, found, err := record{dir: stateDir}.read()
	if err != nil {
		return Info{}, err
	}
	if !found || !known.Holder.Alive() {
		return Info{}, ErrNotUp
	}
	return known, nil
}
