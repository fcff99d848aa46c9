package passes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"notifylab/internal/notify"
)

// Expired is the event that a pass has come to its end.
type Expired struct {
	ID   string `json:"id"`   // of the event
	Pass string `json:"pass"` // which pass
	User string `json:"user"` // whose
	Text string `json:"text"` // what the person is told
}

// Validate returns nil if e can be published, else an error that names the field.
// The bounds are those of the notification that follows from it.
func (e Expired) Validate() error {
	if err := e.Notification().Validate(); err != nil {
		return err
	}
	if err := (notify.Notification{ID: e.Pass, User: e.User}).Validate(); err != nil {
		return fmt.Errorf("pass: %w", err)
	}
	return nil
}

// Notification is what the reaction notify sends.
func (e Expired) Notification() notify.Notification {
	return notify.Notification{ID: e.ID, User: e.User, Text: e.Text}
}

// Encode returns the body of e's record.
func Encode(e Expired) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		panic(err) // strings always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Decode reads the body of a record. Its errors wrap [notify.ErrMalformed]: trying
// again is of no use. Fields that it does not know are left alone.
func Decode(body []byte) (Expired, error) {
	var e Expired
	if err := json.Unmarshal(body, &e); err != nil {
		if len(body) == 0 {
			err = errors.New("the body is empty")
		}
		return Expired{}, fmt.Errorf("%w: %v", notify.ErrMalformed, err)
	}
	if err := e.Validate(); err != nil {
		return Expired{}, fmt.Errorf("%w: %v", notify.ErrMalformed, err)
	}
	return e, nil
}
