package sniffer

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pb "fairlead.dev/kube-scheduler-sniffer/recorderpb"
)

const patience = 60 * time.Second

// recorder is a real gRPC server that keeps what it is sent.
type recorder struct {
	mutex   sync.Mutex
	batches []*pb.Batch
	mute    bool
	server  *grpc.Server
	address string
}

func serve(t *testing.T, address string, mute bool) *recorder {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{mute: mute, address: listener.Addr().String()}
	r.server = grpc.NewServer(grpc.UnknownServiceHandler(r.handle))
	go r.server.Serve(listener)
	t.Cleanup(r.server.Stop)
	return r
}

func (r *recorder) handle(_ any, stream grpc.ServerStream) error {
	for {
		batch := &pb.Batch{}
		if err := stream.RecvMsg(batch); err != nil {
			return nil
		}
		r.mutex.Lock()
		r.batches = append(r.batches, batch)
		r.mutex.Unlock()
		if r.mute {
			continue
		}
		if err := stream.SendMsg(&pb.Ack{Last: batch.First + uint64(len(batch.Facts)) - 1}); err != nil {
			return err
		}
	}
}

// names are those of the facts that came, by number, and how many came again.
func (r *recorder) names() (map[uint64]string, int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found, again := map[uint64]string{}, 0
	for _, batch := range r.batches {
		for index, fact := range batch.Facts {
			number := batch.First + uint64(index)
			if _, known := found[number]; known {
				again++
			}
			found[number] = fact.Name
		}
	}
	return found, again
}

func (r *recorder) dropped() uint64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.batches) == 0 {
		return 0
	}
	return r.batches[len(r.batches)-1].Dropped
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func sending(t *testing.T, address string, buffer int) *sender {
	t.Helper()
	s, err := newSender(context.Background(), Args{
		Address: address, Buffer: buffer, FlushInterval: metav1.Duration{Duration: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func puts(s *sender, from, to int) {
	for index := from; index < to; index++ {
		s.put(&pb.Fact{Name: strconv.Itoa(index)})
	}
}

// inOrder fails unless exactly the facts 0 to count-1 came, numbered from 1 on.
func inOrder(t *testing.T, r *recorder, count int) {
	t.Helper()
	found, _ := r.names()
	for index := range count {
		if found[uint64(index+1)] != strconv.Itoa(index) {
			t.Fatalf("number %d is %q, not %d", index+1, found[uint64(index+1)], index)
		}
	}
	if len(found) != count {
		t.Fatalf("%d facts came, not %d", len(found), count)
	}
}

// closed is an address at which nobody listens.
func closed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestFactsArriveInOrderAndNumbered(t *testing.T) {
	r := serve(t, "127.0.0.1:0", false)
	s := sending(t, r.address, 10_000)
	puts(s, 0, 2345)
	s.close()
	inOrder(t, r, 2345)
}

func TestARecorderThatIsAwayHoldsNobodyUpAndIsToldWhatIsMissing(t *testing.T) {
	address := closed(t)
	s := sending(t, address, 100)
	puts(s, 0, 1000)
	if dropped := s.dropped.Load(); dropped != 900 {
		t.Fatalf("%d facts were thrown away, not 900", dropped)
	}
	r := serve(t, address, false)
	until(t, "the recorder has what was kept", func() bool { found, _ := r.names(); return len(found) == 100 })
	inOrder(t, r, 100)
	if r.dropped() != 900 {
		t.Fatalf("the recorder was told of %d thrown away, not of 900", r.dropped())
	}
}

func TestWhatWasNotAcknowledgedComesAgainWithItsNumbers(t *testing.T) {
	first := serve(t, "127.0.0.1:0", true)
	s := sending(t, first.address, 10_000)
	puts(s, 0, 1200)
	until(t, "all have been sent", func() bool { found, _ := first.names(); return len(found) == 1200 })
	first.server.Stop()
	second := serve(t, first.address, false)
	puts(s, 1200, 1500)
	until(t, "the second has all", func() bool { found, _ := second.names(); return len(found) == 1500 })
	inOrder(t, second, 1500)
}

func TestWhatWasAcknowledgedIsNotKept(t *testing.T) {
	s := &sender{}
	for first := uint64(1); first <= 31; first += 10 {
		s.unacked = append(s.unacked, &pb.Batch{First: first, Facts: make([]*pb.Fact, 10)})
	}
	for last, left := range map[uint64]int{9: 4, 10: 3} {
		kept := &sender{unacked: s.unacked}
		kept.acknowledged(last)
		if len(kept.unacked) != left {
			t.Errorf("after %d: %d batches are kept, not %d", last, len(kept.unacked), left)
		}
	}
}

func TestARecorderThatNeverAnswersCostsOnlySoMuchMemory(t *testing.T) {
	r := serve(t, "127.0.0.1:0", true)
	s := sending(t, r.address, 1000)
	most := window*batchSize + batchSize + 1000
	until(t, "facts are thrown away", func() bool { puts(s, 0, 1000); return s.dropped.Load() > 0 })
	found, _ := r.names()
	if len(found) > most {
		t.Fatalf("%d facts are kept, at most %d may be", len(found), most)
	}
}

func TestTheEndDoesNotWaitForARecorderThatIsAway(t *testing.T) {
	s := sending(t, closed(t), 100)
	puts(s, 0, 100)
	done := make(chan struct{})
	go func() { s.close(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it waits")
	}
}
