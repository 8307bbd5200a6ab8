! Sums in place and not, and a broadcast, through the interface that the compiler is told to take.
program mpi_sums
#if defined USE_F08
  use mpi_f08
#elif defined USE_MODULE
  use mpi
#endif
  implicit none
#if !defined USE_F08 && !defined USE_MODULE
  include 'mpif.h'
#endif
  integer, parameter :: n = 100
  integer :: rank, ranks, error, i, round, whole(n), wholes(n), total
  double precision :: mine(n), sums(n)
  complex(kind(1d0)) :: c(2), cs(2)
  logical :: flag, all_flags
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  total = ranks * (ranks - 1) / 2
  do round = 1, 5
    do i = 1, n
      mine(i) = rank * i
      sums(i) = rank * i
      whole(i) = rank + i
    end do
    call MPI_Allreduce(mine, sums, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    if (any(sums /= [(dble(total * i), i = 1, n)])) call wrong('a sum')
    call MPI_Allreduce(MPI_IN_PLACE, mine, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    if (any(mine /= sums)) call wrong('a sum in place')
    call MPI_Reduce(whole, wholes, n, MPI_INTEGER, MPI_MAX, ranks - 1, MPI_COMM_WORLD, error)
    if (rank == ranks - 1 .and. any(wholes /= [(ranks - 1 + i, i = 1, n)])) call wrong('a maximum')
    call MPI_Bcast(whole, n, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
    if (any(whole /= [(i, i = 1, n)])) call wrong('a broadcast')
    c = cmplx(rank, 1, kind(1d0))
    call MPI_Allreduce(c, cs, 2, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, error)
    if (any(cs /= cmplx(total, ranks, kind(1d0)))) call wrong('a complex sum')
    flag = rank > 0
    call MPI_Allreduce(flag, all_flags, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, error)
    if (all_flags) call wrong('a logical and')
    call MPI_Allreduce(flag, all_flags, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, error)
    if (all_flags .neqv. ranks > 1) call wrong('a logical or')
    call MPI_Barrier(MPI_COMM_WORLD, error)
  end do
  if (rank == 0) print *, 'right'
  call MPI_Finalize(error)
contains
  subroutine wrong(what)
    character(*), intent(in) :: what
    print *, 'rank', rank, ': ', what, ' is wrong'
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine
end program
