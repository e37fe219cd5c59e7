// What the player draws with: the bundle holds nothing else of three.js.
export {
  BoxGeometry, BufferAttribute, BufferGeometry, CapsuleGeometry, Color, CylinderGeometry,
  DataTexture, DirectionalLight, DoubleSide, Fog, Group, HemisphereLight, InstancedMesh,
  LinearMipmapLinearFilter, Matrix4, Mesh, MeshBasicMaterial, MeshLambertMaterial,
  MeshStandardMaterial, NearestFilter, PCFShadowMap, PerspectiveCamera, PlaneGeometry, Quaternion,
  RepeatWrapping, SRGBColorSpace, Scene, SphereGeometry, Vector3, WebGLRenderer,
} from "three";
export { OrbitControls } from "three/addons/controls/OrbitControls.js";
