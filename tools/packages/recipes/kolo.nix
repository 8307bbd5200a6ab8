# Nix's recipe, of the tree that it lies in:
#     nix-build -E 'with import <nixpkgs> { }; callPackage ./tools/packages/recipes/kolo.nix { }'
# Tried: Nix 2.8 reads it, and evaluates it with names alone; it was not built, for lack of nixpkgs.
{
  lib,
  stdenv,
  cmake,
  ninja,
  pkg-config,
  python3,
  liburing,
  libsodium,
}:

stdenv.mkDerivation {
  pname = "kolo";
  version = "0.1.0";
  src = lib.cleanSource ../../..;
  nativeBuildInputs = [ cmake ninja pkg-config python3 ];
  buildInputs = [ liburing libsodium ];
  cmakeFlags = [
    "-DKOLO_SODIUM=ON"
    "-DKOLO_TORCH=OFF"
    "-DKOLO_PYTHON_DIR=${python3.sitePackages}"
  ];
  meta = {
    description = "Collectives between the processes of one many-core machine";
    license = lib.licenses.asl20;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "kolorun";
  };
}
