package worker

import "notifylab/internal/lab"

// A Point is one of a worker's crash points.
type Point = lab.Point

const (
	AfterReceive Point = "after-receive" // before anything but the early ack
	AfterClaim   Point = "after-claim"   // the record is written
	BeforeSend   Point = "before-send"   // the clock check is passed
	MidSend      Point = "mid-send"      // the first byte of the answer is there, unread
	AfterSend    Point = "after-send"    // the answer is read, the record not yet done
	BeforeAck    Point = "before-ack"    // the record is done
	AfterAck     Point = "after-ack"     // the broker has the ack
	BeforeCopy   Point = "before-copy"   // of a retry or a dead letter
	AfterCopy    Point = "after-copy"    // it is confirmed, the original not yet acked
)

// Points lists the crash points in the order in which a delivery meets them.
func Points() []Point {
	return []Point{AfterReceive, AfterClaim, BeforeSend, MidSend, AfterSend, BeforeAck, AfterAck, BeforeCopy, AfterCopy}
}
